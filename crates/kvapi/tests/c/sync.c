/* Store, retrieve, delete and exist, one call after the other. */
#include "check.h"

static void lengths_and_offsets(kvs_key_space_handle space, uint32_t most) {
  unsigned char *bytes = kvs_malloc(2 << 20, 4096), *back = kvs_zalloc(2 << 20, 4096);
  uint32_t sizes[] = {0, 1, 5, 511, 512, 4096, 70000, 2 << 20};
  kvs_key key = key_of("lengths");
  CHECK(bytes && back && (uintptr_t)bytes % 4096 == 0 && back[4711] == 0);
  for (size_t at = 0; at < 2 << 20; at++) bytes[at] = (unsigned char)(at * 7 + at / 251);
  for (size_t n = 0; n < sizeof sizes / sizeof *sizes && sizes[n] <= most; n++) {
    kvs_value value = value_of(bytes, sizes[n]), into = value_of(back, 2 << 20);
    OK(kvs_store_kvp(space, &key, &value, NULL));
    OK(kvs_retrieve_kvp(space, &key, NULL, &into));
    CHECK(into.length == sizes[n] && into.actual_value_size == sizes[n]);
    CHECK(memcmp(bytes, back, sizes[n]) == 0);
  }
  {
    kvs_value value = value_of(bytes, 5000), into = value_of(back, 4096);
    OK(kvs_store_kvp(space, &key, &value, NULL));
    /* A buffer that is too small gets what it has room for. */
    memset(back, 0, 8192);
    RESULT(kvs_retrieve_kvp(space, &key, NULL, &into), KVS_ERR_BUFFER_SMALL);
    CHECK(into.length == 4096 && into.actual_value_size == 5000);
    CHECK(memcmp(bytes, back, 4096) == 0 && back[4096] == 0);
    into = value_of(back, 4096);
    into.offset = 1024;
    OK(kvs_retrieve_kvp(space, &key, NULL, &into));
    CHECK(into.length == 3976 && into.actual_value_size == 5000);
    CHECK(memcmp(bytes + 1024, back, 3976) == 0);
    into = value_of(back, 4096);
    into.offset = 100;
    RESULT(kvs_retrieve_kvp(space, &key, NULL, &into), KVS_ERR_VALUE_OFFSET_MISALIGNED);
    into.offset = 5120;
    RESULT(kvs_retrieve_kvp(space, &key, NULL, &into), KVS_ERR_VALUE_OFFSET_INVALID);
    value = value_of(bytes, (2 << 20) + 1);
    RESULT(kvs_store_kvp(space, &key, &value, NULL), KVS_ERR_VALUE_LENGTH_INVALID);
  }
  kvs_free(bytes);
  kvs_free(back);
}

static void store_types(kvs_key_space_handle space) {
  RESULT(put(space, "types", "no", KVS_STORE_UPDATE_ONLY), KVS_ERR_KEY_NOT_EXIST);
  OK(put(space, "types", "one", KVS_STORE_NOOVERWRITE));
  RESULT(put(space, "types", "two", KVS_STORE_NOOVERWRITE), KVS_ERR_VALUE_UPDATE_NOT_ALLOWED);
  CHECK(has(space, "types", "one"));
  OK(put(space, "types", "three", KVS_STORE_UPDATE_ONLY));
  OK(put(space, "types", ", four", KVS_STORE_APPEND));
  CHECK(has(space, "types", "three, four"));
  OK(put(space, "appended", "five", KVS_STORE_APPEND));
  CHECK(has(space, "appended", "five"));
  OK(put(space, "types", "", KVS_STORE_POST));
  CHECK(has(space, "types", ""));
  RESULT(put(space, "types", "", (kvs_store_type)4), KVS_ERR_OPTION_INVALID);
}

static void deletions(kvs_key_space_handle space) {
  kvs_key key = key_of("deleted");
  kvs_option_delete strict = {true}, lax = {false};
  kvs_option_retrieve take = {true};
  char buffer[64];
  kvs_value value = value_of(buffer, sizeof buffer);
  OK(put(space, "deleted", "there", KVS_STORE_POST));
  OK(kvs_delete_kvp(space, &key, &strict));
  RESULT(kvs_delete_kvp(space, &key, &strict), KVS_ERR_KEY_NOT_EXIST);
  OK(kvs_delete_kvp(space, &key, &lax));
  OK(kvs_delete_kvp(space, &key, NULL));
  RESULT(kvs_retrieve_kvp(space, &key, NULL, &value), KVS_ERR_KEY_NOT_EXIST);
  /* A retrieval that deletes: not what it has not retrieved. */
  OK(put(space, "deleted", "there", KVS_STORE_POST));
  value = value_of(buffer, 3);
  RESULT(kvs_retrieve_kvp(space, &key, &take, &value), KVS_ERR_BUFFER_SMALL);
  value = value_of(buffer, sizeof buffer);
  OK(kvs_retrieve_kvp(space, &key, &take, &value));
  CHECK(value.length == 5 && memcmp(buffer, "there", 5) == 0);
  value = value_of(buffer, sizeof buffer);
  RESULT(kvs_retrieve_kvp(space, &key, &take, &value), KVS_ERR_KEY_NOT_EXIST);
}

static void existence(kvs_key_space_handle space) {
  kvs_key keys[19];
  char names[19][8];
  uint8_t bits[3] = {0xff, 0xff, 0xff};
  kvs_exist_list list;
  uint8_t room[16];
  kvs_kvp_info info = {0, room, 0};
  for (int n = 0; n < 19; n++) {
    snprintf(names[n], sizeof names[n], "exist%02d", n);
    keys[n] = key_of(names[n]);
    if (n % 3 == 0) OK(put(space, names[n], "x", KVS_STORE_POST));
  }
  memset(&list, 0, sizeof list);
  list.length = 3;
  list.result_buffer = bits;
  OK(kvs_exist_kv_pairs(space, 19, keys, &list));
  CHECK(list.length == 3 && list.num_keys == 19 && list.keys == keys);
  for (int n = 0; n < 24; n++) {
    CHECK((bits[n / 8] >> (n % 8) & 1) == (n < 19 && n % 3 == 0));
  }
  list.length = 2;
  RESULT(kvs_exist_kv_pairs(space, 19, keys, &list), KVS_ERR_BUFFER_SMALL);
  OK(put(space, "exist00", "sixteen bytes it", KVS_STORE_POST));
  OK(kvs_get_kvp_info(space, &keys[0], &info));
  CHECK(info.value_len == 16 && info.key_len == 7 && memcmp(room, "exist00", 7) == 0);
  RESULT(kvs_get_kvp_info(space, &keys[1], &info), KVS_ERR_KEY_NOT_EXIST);
}

/* Keys of every length that the device says it has. */
static void key_lengths(kvs_device_handle device, kvs_key_space_handle space) {
  uint32_t least, most;
  char text[300];
  OK(kvs_get_min_key_length(device, &least));
  OK(kvs_get_max_key_length(device, &most));
  for (uint32_t length = 1; length <= 260; length++) {
    int is_one = length >= least && length <= most;
    memset(text, 'k', length);
    text[length] = 0;
    RESULT(put(space, text, text + length / 2, KVS_STORE_POST),
           is_one ? KVS_SUCCESS : KVS_ERR_KEY_LENGTH_INVALID);
    if (is_one) CHECK(has(space, text, text + length / 2));
  }
}

int main(int count, char **arguments) {
  kvs_device_handle device;
  kvs_key_space_handle space;
  uint32_t most;
  CHECK(count == 2);
  space = open_space(arguments[1], "sync", &device);
  OK(kvs_get_max_value_length(device, &most));
  lengths_and_offsets(space, most);
  store_types(space);
  deletions(space);
  existence(space);
  key_lengths(device, space);
  OK(kvs_close_key_space(space));
  OK(drop(device, "sync"));
  OK(kvs_close_device(device));
  return 0;
}
