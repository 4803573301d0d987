/* What the C programs of these tests share. */
#ifndef CHECK_H
#define CHECK_H

#include <kvs_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                            \
  do {                                                                         \
    if (!(what)) {                                                             \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);               \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

#define RESULT(call, expected)                                                 \
  do {                                                                         \
    int result_ = (int)(call);                                                 \
    if (result_ != (int)(expected)) {                                          \
      fprintf(stderr, "%s:%d: %s is 0x%x and not 0x%x\n", __FILE__, __LINE__,  \
              #call, result_, (int)(expected));                                \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

#define OK(call) RESULT(call, KVS_SUCCESS)

static inline kvs_key key_of(const char *text) {
  kvs_key key;
  key.key = (void *)text;
  key.length = (uint16_t)strlen(text);
  return key;
}

static inline kvs_value value_of(void *bytes, uint32_t length) {
  kvs_value value;
  value.value = bytes;
  value.length = length;
  value.actual_value_size = 0;
  value.offset = 0;
  return value;
}

static inline kvs_key_space_name name_of(const char *text) {
  kvs_key_space_name name;
  name.name_len = (uint32_t)strlen(text);
  name.name = (char *)text;
  return name;
}

static inline kvs_result create(kvs_device_handle device, const char *text, uint64_t size) {
  kvs_key_space_name name = name_of(text);
  kvs_option_key_space option = {KVS_KEY_ORDER_NONE};
  return kvs_create_key_space(device, &name, size, option);
}

static inline kvs_result drop(kvs_device_handle device, const char *text) {
  kvs_key_space_name name = name_of(text);
  return kvs_delete_key_space(device, &name);
}

static inline kvs_result put(kvs_key_space_handle space, const char *text, const char *what,
                             kvs_store_type type) {
  kvs_key key = key_of(text);
  kvs_value value = value_of((void *)what, (uint32_t)strlen(what));
  kvs_option_store option = {type, NULL};
  return kvs_store_kvp(space, &key, &value, &option);
}

static inline int has(kvs_key_space_handle space, const char *text, const char *what) {
  char buffer[256];
  kvs_key key = key_of(text);
  kvs_value value = value_of(buffer, sizeof buffer);
  if (kvs_retrieve_kvp(space, &key, NULL, &value) != KVS_SUCCESS) return 0;
  return value.length == strlen(what) && value.actual_value_size == value.length &&
         memcmp(buffer, what, value.length) == 0;
}

/* A device from the program's first argument, with a key space. */
static inline kvs_key_space_handle open_space(char *uri, const char *text,
                                              kvs_device_handle *device) {
  kvs_key_space_handle space;
  OK(kvs_open_device(uri, device));
  OK(create(*device, text, 0));
  OK(kvs_open_key_space(*device, (char *)text, &space));
  return space;
}

#endif
