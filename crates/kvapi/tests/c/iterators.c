/* Iterators and groups of keys. */
#include "check.h"

#define PAIRS 3000

static kvs_device_handle device;
static kvs_key_space_handle space;

static kvs_key_group_filter filter_of(const char *pattern) {
  kvs_key_group_filter filter;
  memset(&filter, 0, sizeof filter);
  memcpy(filter.bit_pattern, pattern, strlen(pattern));
  memset(filter.bitmask, 0xff, strlen(pattern));
  return filter;
}

static kvs_result iterator_of(kvs_key_group_filter filter, kvs_iterator_type type,
                              kvs_iterator_handle *iterator) {
  kvs_option_iterator option = {type};
  return kvs_create_iterator(space, &option, &filter, iterator);
}

/* Counts the keys of a group, all of which are to be of the form "PP......", in order. */
static int count_keys(kvs_key_group_filter filter, kvs_iterator_type type, uint32_t room, int step) {
  static uint8_t buffer[KVS_ITERATOR_BUFFER_SIZE];
  char last[16] = "";
  kvs_iterator_handle iterator;
  kvs_iterator_list list;
  int count = 0;
  OK(iterator_of(filter, type, &iterator));
  list.end = false;
  list.it_list = buffer;
  while (!list.end) {
    uint8_t *at = buffer;
    list.size = room;
    OK(kvs_iterate_next(space, iterator, &list));
    for (uint32_t n = 0; n < list.num_entries; n++) {
      uint32_t length;
      char key[16] = "";
      memcpy(&length, at, 4);
      CHECK(length == 8);
      memcpy(key, at + 4, length);
      CHECK((count == 0 || strcmp(key, last) * step > 0) && !(strcmp(key, last) == 0));
      strcpy(last, key);
      at += 4 + length;
      if (type == KVS_ITERATOR_KEY_VALUE) {
        memcpy(&length, at, 4);
        CHECK(length == strlen(key + 2) && memcmp(at + 4, key + 2, length) == 0);
        at += 4 + length;
      }
      count++;
    }
    CHECK(at == buffer + list.size && list.size <= room);
    CHECK(list.end || list.num_entries > 0);
  }
  OK(kvs_delete_iterator(space, iterator));
  return count;
}

static void fill(void) {
  for (int n = 0; n < PAIRS; n++) {
    char key[16];
    snprintf(key, sizeof key, "%c%c%06d", 'a' + n % 3, 'p' + n % 2, n);
    OK(put(space, key, key + 2, KVS_STORE_POST));
  }
}

int main(int count, char **arguments) {
  kvs_iterator_handle iterators[KVS_MAX_ITERATE_HANDLE], one;
  kvs_iterator_list list;
  uint8_t buffer[64];
  kvs_key_group_filter filter;
  kvs_key_space_name name;
  kvs_option_key_space descending = {KVS_KEY_ORDER_DESCEND};
  CHECK(count == 2);
  space = open_space(arguments[1], "iterators", &device);
  fill();
  CHECK(count_keys(filter_of(""), KVS_ITERATOR_KEY, 32768, 1) == PAIRS);
  CHECK(count_keys(filter_of("a"), KVS_ITERATOR_KEY, 32768, 1) == PAIRS / 3);
  CHECK(count_keys(filter_of("bq"), KVS_ITERATOR_KEY_VALUE, 32768, 1) == PAIRS / 6);
  CHECK(count_keys(filter_of("cp"), KVS_ITERATOR_KEY_VALUE, 50, 1) == PAIRS / 6);
  CHECK(count_keys(filter_of("ap00"), KVS_ITERATOR_KEY, 100, 1) == PAIRS / 6);
  CHECK(count_keys(filter_of("d"), KVS_ITERATOR_KEY, 100, 1) == 0);
  /* Bits of the pattern that the mask does not name; a mask that ends within a byte: b and c. */
  filter = filter_of("bp");
  filter.bitmask[0] = 0xfe;
  filter.bitmask[1] = 0;
  CHECK(count_keys(filter, KVS_ITERATOR_KEY, 32768, 1) == 2 * PAIRS / 3);
  filter.bitmask[1] = 0x10;
  RESULT(iterator_of(filter, KVS_ITERATOR_KEY, &one), KVS_ERR_ITERATOR_FILTER_INVALID);
  RESULT(iterator_of(filter_of("a"), (kvs_iterator_type)2, &one), KVS_ERR_OPTION_INVALID);
  for (int n = 0; n < KVS_MAX_ITERATE_HANDLE; n++) {
    char text[3] = {'x', (char)('a' + n), 0};
    OK(iterator_of(filter_of(text), KVS_ITERATOR_KEY, &iterators[n]));
    CHECK(iterators[n] == n + 1);
  }
  RESULT(iterator_of(filter_of("xb"), KVS_ITERATOR_KEY, &one), KVS_ERR_ITERATOR_OPEN);
  RESULT(iterator_of(filter_of("y"), KVS_ITERATOR_KEY, &one), KVS_ERR_ITERATOR_MAX);
  OK(kvs_delete_iterator(space, iterators[3]));
  RESULT(kvs_delete_iterator(space, iterators[3]), KVS_ERR_ITERATOR_NOT_EXIST);
  RESULT(kvs_delete_iterator(space, 0), KVS_ERR_ITERATOR_NOT_EXIST);
  RESULT(kvs_delete_iterator(space, 17), KVS_ERR_ITERATOR_NOT_EXIST);
  OK(iterator_of(filter_of("a"), KVS_ITERATOR_KEY, &one));
  CHECK(one == 4);
  /* Not even one entry has room. */
  list.it_list = buffer;
  list.size = 11;
  RESULT(kvs_iterate_next(space, one, &list), KVS_ERR_BUFFER_SMALL);
  list.size = 12;
  OK(kvs_iterate_next(space, one, &list));
  CHECK(list.num_entries == 1 && !list.end && memcmp(buffer + 4, "ap000000", 8) == 0);
  OK(kvs_delete_iterator(space, iterators[0]));
  /* A group is deleted, whatever its mask: of a, b and c those with p in second place. */
  memset(&filter, 0, sizeof filter);
  filter.bitmask[1] = 0xff;
  filter.bit_pattern[1] = 'p';
  OK(kvs_delete_key_group(space, &filter));
  CHECK(count_keys(filter_of(""), KVS_ITERATOR_KEY, 32768, 1) == PAIRS / 2);
  /* Closing a key space closes its iterators. */
  OK(kvs_close_key_space(space));
  OK(kvs_open_key_space(device, "iterators", &space));
  RESULT(kvs_iterate_next(space, one, &list), KVS_ERR_ITERATOR_NOT_EXIST);
  OK(kvs_close_key_space(space));
  OK(drop(device, "iterators"));
  /* The other way round, where the device can. */
  name = name_of("downwards");
  if (kvs_create_key_space(device, &name, 0, descending) == KVS_SUCCESS) {
    OK(kvs_open_key_space(device, "downwards", &space));
    fill();
    CHECK(count_keys(filter_of(""), KVS_ITERATOR_KEY, 1000, -1) == PAIRS);
    CHECK(count_keys(filter_of("bp"), KVS_ITERATOR_KEY, 1000, -1) == PAIRS / 6);
  }
  OK(kvs_close_device(device));
  return 0;
}
