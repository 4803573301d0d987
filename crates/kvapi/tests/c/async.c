/* Asynchronous calls, and many threads. */
#include "check.h"
#include <stdatomic.h>
#include <unistd.h>

#define PAIRS 2000
#define DEPTH 32

static kvs_key_space_handle space;
static atomic_int completed, failed, running, deepest;
static pthread_t caller;

static void done(kvs_postprocess_context *context) {
  CHECK(context->ks_hd == space && context->private2 == (void *)&completed);
  CHECK(!pthread_equal(pthread_self(), caller));
  if (context->result != KVS_SUCCESS) failed++;
  switch (context->context) {
  case KVS_CMD_STORE:
    CHECK(context->key && context->value);
    break;
  case KVS_CMD_RETRIEVE:
    if (context->result == KVS_SUCCESS) {
      char expected[32];
      snprintf(expected, sizeof expected, "of %.8s", (char *)context->key->key);
      CHECK(context->value->length == strlen(expected));
      CHECK(memcmp(context->value->value, expected, context->value->length) == 0);
    }
    break;
  case KVS_CMD_EXIST:
    CHECK(context->result_buffer.list == context->private1);
    break;
  case KVS_CMD_ITER_NEXT:
    CHECK(context->result_buffer.iter_list == context->private1);
    break;
  case KVS_CMD_DELETE:
  case KVS_CMD_DELETE_GROUP:
    break;
  default:
    CHECK(!"what is this");
  }
  running--;
  completed++;
}

static char names[PAIRS][12], texts[PAIRS][64];
static kvs_key keys[PAIRS];
static kvs_value values[PAIRS];

static void began(void) {
  int now = ++running;
  if (now > deepest) deepest = now;
}

static void await(int count) {
  while (completed < count) usleep(50);
  completed = 0;
}

/* A callback that makes calls of its own, of both kinds. */
static atomic_int chained;

static void chain(kvs_postprocess_context *context) {
  CHECK(context->result == KVS_SUCCESS);
  CHECK(has(space, "chained!", "x"));
  if (++chained < 200) {
    OK(kvs_store_kvp_async(space, context->key, context->value, NULL, NULL, NULL, chain));
  }
}

static void everything_once(void) {
  static uint8_t bits[PAIRS];
  static kvs_exist_list lists[PAIRS];
  kvs_option_delete strict = {true};
  kvs_key_group_filter filter = {{0xff, 0xff, 0, 0}, {'0', '0', 0, 0}};
  for (int n = 0; n < PAIRS; n++) {
    snprintf(names[n], sizeof names[n], "%08d", n);
    snprintf(texts[n], sizeof texts[n], "of %s", names[n]);
    keys[n] = key_of(names[n]);
    values[n] = value_of(texts[n], (uint32_t)strlen(texts[n]));
    began();
    OK(kvs_store_kvp_async(space, &keys[n], &values[n], NULL, NULL, &completed, done));
  }
  await(PAIRS);
  for (int n = 0; n < PAIRS; n++) {
    memset(texts[n], 0, sizeof texts[n]);
    values[n] = value_of(texts[n], sizeof texts[n]);
    began();
    OK(kvs_retrieve_kvp_async(space, &keys[n], NULL, NULL, &completed, &values[n], done));
  }
  await(PAIRS);
  for (int n = 0; n + 4 <= PAIRS; n += 4) {
    lists[n].length = 1;
    lists[n].result_buffer = &bits[n];
    began();
    OK(kvs_exist_kv_pairs_async(space, n % 8 ? 1 : 4, &keys[n], &lists[n], &lists[n], &completed,
                                done));
  }
  await(PAIRS / 4);
  for (int n = 0; n + 4 <= PAIRS; n += 4) CHECK(bits[n] == (n % 8 ? 1 : 0xf));
  CHECK(failed == 0);
  for (int n = 0; n < PAIRS / 2; n++) {
    began();
    OK(kvs_delete_kvp_async(space, &keys[n], &strict, NULL, &completed, done));
  }
  await(PAIRS / 2);
  CHECK(failed == 0);
  for (int n = 0; n < PAIRS / 2; n++) {
    began();
    OK(kvs_delete_kvp_async(space, &keys[n], &strict, NULL, &completed, done));
  }
  await(PAIRS / 2);
  CHECK(failed == PAIRS / 2);
  failed = 0;
  OK(kvs_delete_key_group_async(space, &filter, NULL, &completed, done));
  await(1);
  RESULT(kvs_retrieve_kvp(space, &keys[PAIRS - 1], NULL, &values[0]), KVS_ERR_KEY_NOT_EXIST);
}

static void iterate(void) {
  static uint8_t buffer[KVS_ITERATOR_BUFFER_SIZE];
  kvs_key_group_filter filter = {{0, 0, 0, 0}, {0, 0, 0, 0}};
  kvs_option_iterator option = {KVS_ITERATOR_KEY};
  kvs_iterator_handle iterator;
  kvs_iterator_list list;
  OK(put(space, "one of two", "x", KVS_STORE_POST));
  OK(put(space, "two of two", "x", KVS_STORE_POST));
  OK(kvs_create_iterator(space, &option, &filter, &iterator));
  memset(&list, 0, sizeof list);
  list.size = sizeof buffer;
  list.it_list = buffer;
  OK(kvs_iterate_next_async(space, iterator, &list, &list, &completed, done));
  await(1);
  CHECK(failed == 0 && list.num_entries == 2 && list.end && list.size == 28);
  OK(kvs_delete_iterator(space, iterator));
}

/* Threads that make calls that wait, each with keys of its own and one for all. */
static void *thread(void *argument) {
  char name[16], text[16];
  int number = *(int *)argument;
  for (int n = 0; n < 300; n++) {
    snprintf(name, sizeof name, "t%d-%05d", number, n);
    snprintf(text, sizeof text, "%d", n * number);
    OK(put(space, name, text, KVS_STORE_NOOVERWRITE));
    CHECK(has(space, name, text));
    OK(put(space, "for all", "+", KVS_STORE_APPEND));
  }
  return NULL;
}

int main(int count, char **arguments) {
  kvs_device_handle device;
  pthread_t threads[4];
  int numbers[4];
  kvs_key key = key_of("chained!"), all = key_of("for all");
  kvs_value value = value_of("x", 1);
  static char appended[4096];
  CHECK(count == 2);
  caller = pthread_self();
  setenv("KVSSD_QUEUE_DEPTH", "32", 1);
  space = open_space(arguments[1], "async", &device);
  RESULT(kvs_store_kvp_async(space, &key, &value, NULL, NULL, NULL, NULL), KVS_ERR_PARAM_INVALID);
  everything_once();
  /* The calls that wait for room are not under way; the callback counts a little late. */
  CHECK(deepest <= 2 * DEPTH + 2);
  iterate();
  OK(kvs_store_kvp_async(space, &key, &value, NULL, NULL, NULL, chain));
  while (chained < 200) usleep(50);
  for (int n = 0; n < 4; n++) {
    numbers[n] = n;
    CHECK(pthread_create(&threads[n], NULL, thread, &numbers[n]) == 0);
  }
  for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
  value = value_of(appended, sizeof appended);
  OK(kvs_retrieve_kvp(space, &all, NULL, &value));
  CHECK(value.length == 1200);
  /* Closing waits for what is under way. */
  completed = failed = 0;
  for (int n = 0; n < 20; n++) {
    values[n] = value_of(texts[n], 8);
    began();
    OK(kvs_store_kvp_async(space, &keys[n], &values[n], NULL, NULL, &completed, done));
  }
  OK(kvs_close_device(device));
  CHECK(completed == 20 && failed == 0);
  RESULT(kvs_store_kvp(space, &key, &value, NULL), KVS_ERR_KS_NOT_OPEN);
  return 0;
}
