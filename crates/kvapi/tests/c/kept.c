/* Key spaces and pairs that outlive their process: `fill DEVICE` stores them, `check DEVICE` finds them
   and leaves them as they were, `kill DEVICE` dies with the device open, `look DEVICE` finds at least
   what was there before. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

#define LARGE 100000

static void key_text(char *text, int number) { sprintf(text, "key-%04d-with-more-than-sixteen-bytes", number); }

static void fill(char *uri) {
  kvs_device_handle device;
  kvs_key_space_handle first, second;
  kvs_option_key_space descending = {KVS_KEY_ORDER_DESCEND};
  kvs_key_space_name name = name_of("second");
  char text[64];
  static char large[LARGE];
  kvs_key key;
  kvs_value value;
  first = open_space(uri, "first", &device);
  OK(kvs_create_key_space(device, &name, 1 << 20, descending));
  OK(kvs_open_key_space(device, "second", &second));
  for (int n = 0; n < 500; n++) {
    key_text(text, n);
    OK(put(first, text, "an old value", KVS_STORE_POST));
    OK(put(first, text, text, KVS_STORE_POST));
    OK(put(second, text, "another", KVS_STORE_POST));
  }
  for (int n = 0; n < 500; n += 5) {
    key_text(text, n);
    key = key_of(text);
    OK(kvs_delete_kvp(first, &key, NULL));
  }
  memset(large, 'x', LARGE);
  key = key_of("large");
  value = value_of(large, LARGE);
  OK(kvs_store_kvp(first, &key, &value, NULL));
  OK(put(first, "large", " and more", KVS_STORE_APPEND));
  OK(create(device, "gone", 0));
  OK(drop(device, "gone"));
  OK(kvs_close_device(device));
}

static void check(char *uri, int at_least) {
  kvs_device_handle device;
  kvs_key_space_handle first, second;
  kvs_key_space info;
  kvs_key_space_name about;
  char text[64], name[256];
  static char large[LARGE + 16];
  kvs_key key = key_of("large");
  kvs_value value = value_of(large, sizeof large);
  OK(kvs_open_device(uri, &device));
  RESULT(create(device, "first", 0), KVS_ERR_KS_EXIST);
  OK(kvs_open_key_space(device, "first", &first));
  OK(kvs_open_key_space(device, "second", &second));
  RESULT(kvs_open_key_space(device, "gone", &first), KVS_ERR_KS_NOT_EXIST);
  for (int n = 0; n < 500; n++) {
    key_text(text, n);
    CHECK(has(first, text, text) == (n % 5 != 0));
    CHECK(has(second, text, "another"));
  }
  OK(kvs_retrieve_kvp(first, &key, NULL, &value));
  CHECK(value.actual_value_size == LARGE + 9 && memcmp(large + LARGE, " and more", 9) == 0);
  about.name = name;
  about.name_len = sizeof name - 1;
  info.name = &about;
  OK(kvs_get_key_space_info(second, &info));
  CHECK(info.capacity == 1 << 20 && (at_least || info.count == 500));
  /* The limit is that of before. */
  value = value_of(large, LARGE);
  for (int n = 0; n < 10; n++) {
    sprintf(text, "much-%d", n);
    key = key_of(text);
    OK(kvs_store_kvp(second, &key, &value, NULL));
  }
  key = key_of("too much");
  RESULT(kvs_store_kvp(second, &key, &value, NULL), KVS_ERR_KS_CAPACITY);
  for (int n = 0; n < 10; n++) {
    sprintf(text, "much-%d", n);
    key = key_of(text);
    OK(kvs_delete_kvp(second, &key, NULL));
  }
  OK(kvs_close_device(device));
}

static void die(char *uri) {
  kvs_device_handle device;
  kvs_key_space_handle first;
  char text[64];
  OK(kvs_open_device(uri, &device));
  OK(kvs_open_key_space(device, "first", &first));
  for (int n = 0; n < 300; n++) {
    sprintf(text, "more-%d", n);
    OK(put(first, text, "a value", KVS_STORE_POST));
  }
  kill(getpid(), SIGKILL);
}

int main(int count, char **arguments) {
  CHECK(count == 3);
  if (strcmp(arguments[1], "fill") == 0) fill(arguments[2]);
  if (strcmp(arguments[1], "check") == 0) check(arguments[2], 0);
  if (strcmp(arguments[1], "look") == 0) check(arguments[2], 1);
  if (strcmp(arguments[1], "kill") == 0) die(arguments[2]);
  return 0;
}
