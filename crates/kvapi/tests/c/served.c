/* A namespace that somebody else serves: its limits, and what stays there. The second argument is
 * "first" or "again". */
#include "check.h"

int main(int count, char **arguments) {
  kvs_device_handle device;
  kvs_key_space_handle space;
  kvs_key_space info;
  kvs_key_space_name name;
  kvs_option_delete strict = {true};
  kvs_key key;
  char buffer[256];
  uint32_t most, share, listed;
  CHECK(count == 3);
  OK(kvs_open_device(arguments[1], &device));
  OK(kvs_get_max_key_length(device, &most));
  CHECK(most == 16);
  if (strcmp(arguments[2], "first") == 0) {
    OK(create(device, "kept", 0));
    RESULT(create(device, "kept", 0), KVS_ERR_KS_EXIST);
    /* There is one set of keys. */
    RESULT(create(device, "second", 0), KVS_ERR_DEV_CAPACITY);
    RESULT(create(device, "limited", 1000), KVS_ERR_OPTION_INVALID);
    OK(kvs_open_key_space(device, "kept", &space));
    OK(put(space, "sixteen bytes ok", "value", KVS_STORE_POST));
    RESULT(put(space, "seventeen bytes..", "value", KVS_STORE_POST), KVS_ERR_KEY_LENGTH_INVALID);
    /* The key of the record of key spaces. */
    key.key = (void *)"key_space_list";
    key.length = 15;
    RESULT(kvs_delete_kvp(space, &key, NULL), KVS_ERR_PARAM_INVALID);
    /* Another host has stored this one. */
    CHECK(has(space, "of another host", "its value"));
    memset(&info, 0, sizeof info);
    memset(&name, 0, sizeof name);
    name.name = buffer;
    info.name = &name;
    OK(kvs_get_key_space_info(space, &info));
    CHECK(info.count == 2 && info.opened && strcmp(buffer, "kept") == 0);
    OK(kvs_get_device_utilization(device, &share));
    CHECK(share <= 10000);
  } else {
    name.name = buffer;
    name.name_len = 255;
    OK(kvs_list_key_spaces(device, 1, sizeof name, &name, &listed));
    CHECK(listed == 1 && strcmp(buffer, "kept") == 0);
    OK(kvs_open_key_space(device, "kept", &space));
    CHECK(has(space, "sixteen bytes ok", "value"));
    key = key_of("of another host");
    OK(kvs_delete_kvp(space, &key, &strict));
    RESULT(kvs_delete_kvp(space, &key, &strict), KVS_ERR_KEY_NOT_EXIST);
    OK(drop(device, "kept"));
  }
  OK(kvs_close_device(device));
  return 0;
}
