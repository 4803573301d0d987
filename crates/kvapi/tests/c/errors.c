/* What programs do wrong. */
#include "check.h"

int main(int count, char **arguments) {
  kvs_device_handle device, none = (kvs_device_handle)(uintptr_t)0xdeadbeef;
  kvs_key_space_handle space, nowhere = (kvs_key_space_handle)(uintptr_t)0xdeadbeef;
  kvs_key key = key_of("key1"), bad = key_of("key1");
  kvs_value value = value_of("x", 1), empty = value_of(NULL, 1);
  kvs_exist_list list = {0, NULL, 1, NULL};
  kvs_iterator_handle iterator;
  kvs_key_group_filter filter = {{0}, {0}};
  kvs_option_iterator option = {KVS_ITERATOR_KEY};
  kvs_option_key_space order = {(kvs_key_order)7};
  kvs_key_space_name name = name_of("ordered");
  uint8_t bits;
  uint32_t number;
  CHECK(count == 2);
  RESULT(kvs_open_device(NULL, &device), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_open_device("", &device), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_open_device(arguments[1], NULL), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_open_device("/dev/nothing", &device), KVS_ERR_DEV_NOT_EXIST);
  RESULT(kvs_open_device("mynah:no-such-drive", &device), KVS_ERR_DEV_NOT_EXIST);
  /* A target is waited for: once is enough. */
  if (strcmp(arguments[1], "/dev/kvemul") == 0) {
    RESULT(kvs_open_device("vfio-user:/no/such/folder", &device), KVS_ERR_DEV_NOT_EXIST);
  }
  space = open_space(arguments[1], "errors", &device);
  RESULT(kvs_get_device_capacity(device, NULL), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_get_min_key_length(NULL, &number), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_get_min_key_length(none, &number), KVS_ERR_DEV_NOT_OPENED);
  RESULT(kvs_close_device(none), KVS_ERR_DEV_NOT_OPENED);
  RESULT(create(none, "name", 0), KVS_ERR_DEV_NOT_EXIST);
  RESULT(kvs_create_key_space(device, NULL, 0, order), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_create_key_space(device, &name, 0, order), KVS_ERR_OPTION_INVALID);
  RESULT(kvs_open_key_space(device, NULL, &space), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_open_key_space(device, "", &space), KVS_ERR_KS_NAME);
  RESULT(kvs_store_kvp(nowhere, &key, &value, NULL), KVS_ERR_KS_NOT_OPEN);
  RESULT(kvs_store_kvp(NULL, &key, &value, NULL), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_store_kvp(space, NULL, &value, NULL), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_store_kvp(space, &key, NULL, NULL), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_store_kvp(space, &key, &empty, NULL), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_retrieve_kvp(space, &key, NULL, &empty), KVS_ERR_PARAM_INVALID);
  bad.key = NULL;
  RESULT(kvs_store_kvp(space, &bad, &value, NULL), KVS_ERR_PARAM_INVALID);
  bad.length = 0;
  RESULT(kvs_store_kvp(space, &bad, &value, NULL), KVS_ERR_KEY_LENGTH_INVALID);
  value.offset = 7;
  RESULT(kvs_store_kvp(space, &key, &value, NULL), KVS_ERR_VALUE_OFFSET_MISALIGNED);
  RESULT(kvs_delete_kvp(space, NULL, NULL), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_exist_kv_pairs(space, 1, &key, NULL), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_exist_kv_pairs(space, 1, &key, &list), KVS_ERR_PARAM_INVALID);
  list.result_buffer = &bits;
  RESULT(kvs_exist_kv_pairs(space, 1, NULL, &list), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_exist_kv_pairs(space, 0, &key, &list), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_create_iterator(space, &option, NULL, &iterator), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_create_iterator(space, &option, &filter, NULL), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_iterate_next(space, 1, NULL), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_delete_key_group(space, NULL), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_get_kvp_info(space, &key, NULL), KVS_ERR_PARAM_INVALID);
  RESULT(kvs_get_key_space_info(space, NULL), KVS_ERR_PARAM_INVALID);
  OK(kvs_close_device(device));
  return 0;
}
