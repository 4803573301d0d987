/* Key spaces of a device in this process: several, apart from one another. */
#include "check.h"

static void names(kvs_device_handle device) {
  kvs_key_space_name list[3];
  char buffers[3][256];
  uint32_t count = 99;
  for (int n = 0; n < 3; n++) {
    list[n].name_len = 255;
    list[n].name = buffers[n];
  }
  OK(kvs_list_key_spaces(device, 1, sizeof list, list, &count));
  CHECK(count == 3);
  CHECK(strcmp(buffers[0], "first") == 0 && list[0].name_len == 5);
  CHECK(strcmp(buffers[1], "firsx") == 0 && strcmp(buffers[2], "limited") == 0);
  for (int n = 0; n < 3; n++) list[n].name_len = 255;
  OK(kvs_list_key_spaces(device, 3, sizeof list, list, &count));
  CHECK(count == 1 && strcmp(buffers[0], "limited") == 0);
  list[0].name_len = 255;
  OK(kvs_list_key_spaces(device, 2, sizeof list[0], list, &count));
  CHECK(count == 1 && strcmp(buffers[0], "firsx") == 0);
  RESULT(kvs_list_key_spaces(device, 0, sizeof list, list, &count), KVS_ERR_KS_INDEX);
  RESULT(kvs_list_key_spaces(device, 4, sizeof list, list, &count), KVS_ERR_KS_INDEX);
  RESULT(kvs_list_key_spaces(device, 1, 3, list, &count), KVS_ERR_BUFFER_SMALL);
  list[0].name_len = 2;
  RESULT(kvs_list_key_spaces(device, 1, sizeof list, list, &count), KVS_ERR_BUFFER_SMALL);
}

int main(int count, char **arguments) {
  kvs_device_handle device, again;
  kvs_key_space_handle first, other, limited, twice;
  kvs_key_space info;
  kvs_key_space_name name;
  kvs_option_key_space descending = {KVS_KEY_ORDER_DESCEND};
  char text[300];
  uint64_t capacity;
  uint32_t share, listed;
  kvs_device about;
  CHECK(count == 2);
  OK(kvs_open_device(arguments[1], &device));
  RESULT(kvs_open_device(arguments[1], &again), KVS_ERR_SYS_IO);
  OK(kvs_list_key_spaces(device, 1, sizeof name, &name, &listed));
  CHECK(listed == 0);
  OK(kvs_get_device_capacity(device, &capacity));
  OK(kvs_get_device_info(device, &about));
  CHECK(capacity > 0 && about.capacity == capacity && about.unalloc_capacity == capacity);
  CHECK(about.max_key_len == 255 && about.max_value_len == 2 << 20);
  CHECK(about.optimal_value_len == 4096);
  /* Names that differ in the last byte, which the record's key does not have. */
  OK(create(device, "first", 0));
  OK(create(device, "firsx", 0));
  OK(create(device, "limited", 1000));
  RESULT(create(device, "first", 0), KVS_ERR_KS_EXIST);
  RESULT(create(device, "large", capacity + 1), KVS_ERR_DEV_CAPACITY);
  RESULT(create(device, "", 0), KVS_ERR_KS_NAME);
  memset(text, 'n', 299);
  text[256] = 0;
  RESULT(create(device, text, 0), KVS_ERR_KS_NAME);
  name = name_of("length");
  name.name_len = 3;
  RESULT(kvs_create_key_space(device, &name, 0, descending), KVS_ERR_KS_NAME);
  names(device);
  OK(kvs_open_key_space(device, "first", &first));
  OK(kvs_open_key_space(device, "firsx", &other));
  OK(kvs_open_key_space(device, "limited", &limited));
  RESULT(kvs_open_key_space(device, "first", &twice), KVS_ERR_KS_OPEN);
  RESULT(kvs_open_key_space(device, "none", &twice), KVS_ERR_KS_NOT_EXIST);
  /* The same keys, apart. */
  OK(put(first, "same", "of the first", KVS_STORE_POST));
  OK(put(other, "same", "of the other", KVS_STORE_NOOVERWRITE));
  CHECK(has(first, "same", "of the first") && has(other, "same", "of the other"));
  OK(kvs_get_device_utilization(device, &share));
  CHECK(share <= 10000);
  /* What a limit means: bytes of keys and values. */
  memset(text, 'v', 200);
  text[196] = 0;
  for (int n = 0; n < 6; n++) {
    char key[8];
    snprintf(key, sizeof key, "key%d", n);
    RESULT(put(limited, key, text, KVS_STORE_POST), n < 5 ? KVS_SUCCESS : KVS_ERR_KS_CAPACITY);
  }
  RESULT(put(limited, "key0", "and more", KVS_STORE_APPEND), KVS_ERR_KS_CAPACITY);
  OK(put(limited, "key0", "less", KVS_STORE_POST));
  name.name = text;
  name.name_len = 0;
  info.name = &name;
  OK(kvs_get_key_space_info(limited, &info));
  CHECK(info.opened && info.count == 5 && info.capacity == 1000 && info.free_size == 192);
  CHECK(strcmp(text, "limited") == 0 && name.name_len == 7);
  OK(kvs_get_key_space_info(first, &info));
  CHECK(info.count == 1 && info.capacity == capacity && info.free_size < capacity);
  /* What is closed, and opened again, is what it was. */
  OK(kvs_close_key_space(limited));
  RESULT(kvs_close_key_space(limited), KVS_ERR_KS_NOT_OPEN);
  RESULT(put(limited, "key0", "x", KVS_STORE_POST), KVS_ERR_KS_NOT_OPEN);
  OK(kvs_open_key_space(device, "limited", &limited));
  CHECK(has(limited, "key0", "less"));
  /* Deleting takes the pairs away, and closes. */
  OK(drop(device, "first"));
  RESULT(drop(device, "first"), KVS_ERR_KS_NOT_EXIST);
  RESULT(put(first, "same", "x", KVS_STORE_POST), KVS_ERR_KS_NOT_OPEN);
  CHECK(has(other, "same", "of the other"));
  OK(create(device, "first", 0));
  OK(kvs_open_key_space(device, "first", &first));
  CHECK(!has(first, "same", "of the first"));
  /* As many as there are numbers. */
  for (int n = 0; n < 253; n++) {
    snprintf(text, sizeof text, "space %d", n);
    RESULT(create(device, text, 0), n < 252 ? KVS_SUCCESS : KVS_ERR_DEV_CAPACITY);
  }
  OK(kvs_close_device(device));
  RESULT(kvs_close_device(device), KVS_ERR_DEV_NOT_OPENED);
  RESULT(kvs_get_device_capacity(device, &capacity), KVS_ERR_DEV_NOT_OPENED);
  return 0;
}
