/* Structures of the Key Value Storage API (SNIA, version 1.1), laid out as OpenMPDK has them. */
#ifndef MYNAH_KVS_STRUCT_H
#define MYNAH_KVS_STRUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "kvs_const.h"
#include "kvs_result.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint8_t major;
  uint8_t minor;
  uint8_t micro;
} kvs_api_version;

/* What an asynchronous call was. */
typedef enum {
  KVS_CMD_DELETE = 0x01,
  KVS_CMD_DELETE_GROUP = 0x02,
  KVS_CMD_EXIST = 0x03,
  KVS_CMD_ITER_CREATE = 0x04,
  KVS_CMD_ITER_DELETE = 0x05,
  KVS_CMD_ITER_NEXT = 0x06,
  KVS_CMD_RETRIEVE = 0x07,
  KVS_CMD_STORE = 0x08
} kvs_context;

/* The order in which iterators return the keys of a key space. */
typedef enum {
  KVS_KEY_ORDER_NONE = 0,
  KVS_KEY_ORDER_ASCEND = 1,
  KVS_KEY_ORDER_DESCEND = 2
} kvs_key_order;

typedef struct {
  kvs_key_order ordering;
} kvs_option_key_space;

typedef struct {
  bool kvs_delete_error; /* deleting a key that does not exist is an error */
} kvs_option_delete;

typedef enum {
  KVS_ITERATOR_KEY = 0,
  KVS_ITERATOR_KEY_VALUE = 1
} kvs_iterator_type;

typedef struct {
  kvs_iterator_type iter_type;
} kvs_option_iterator;

typedef struct {
  bool kvs_retrieve_delete; /* the pair is deleted when its value has been retrieved */
} kvs_option_retrieve;

typedef enum {
  KVS_STORE_POST = 0,        /* whether or not the key exists */
  KVS_STORE_UPDATE_ONLY = 1, /* only if it does */
  KVS_STORE_NOOVERWRITE = 2, /* only if it does not */
  KVS_STORE_APPEND = 3       /* behind the value that there is, if there is one */
} kvs_store_type;

typedef enum {
  KVS_NOASSOCIATION = 0,
  KVS_ASSOCIATION_STREAM = 1
} kvs_association_type;

typedef struct {
  void *key;
  uint16_t length;
} kvs_key;

typedef struct {
  void *value;
  uint32_t length;            /* bytes of the buffer; after a retrieval: bytes that came */
  uint32_t actual_value_size; /* after a retrieval: bytes of the whole value */
  uint32_t offset;            /* where in the value a retrieval begins */
} kvs_value;

typedef struct {
  kvs_association_type assoc_type;
  uint16_t assoc_hint;
} kvs_association;

typedef struct {
  kvs_store_type st_type;
  kvs_association *assoc; /* not looked at */
} kvs_option_store;

struct _kvs_device_handle;
struct _kvs_key_space_handle;
typedef struct _kvs_device_handle *kvs_device_handle;
typedef struct _kvs_key_space_handle *kvs_key_space_handle;
typedef uint8_t kvs_iterator_handle;

typedef struct {
  uint32_t name_len;
  char *name;
} kvs_key_space_name;

typedef struct {
  bool opened;
  uint64_t capacity;
  uint64_t free_size;
  uint64_t count;
  kvs_key_space_name *name;
} kvs_key_space;

typedef struct {
  uint64_t capacity;
  uint64_t unalloc_capacity;
  uint32_t max_value_len;
  uint32_t max_key_len;
  uint32_t optimal_value_len;
  uint32_t optimal_value_granularity;
  void *extended_info; /* NULL */
} kvs_device;

typedef struct {
  uint32_t num_keys;
  kvs_key *keys;
  uint32_t length;        /* bytes of the buffer; afterwards: bytes that were written */
  uint8_t *result_buffer; /* a bit for each key, the first in the lowest of the first byte */
} kvs_exist_list;

/* Keys whose first four bytes, where the mask has ones, are those of the pattern. */
typedef struct {
  uint8_t bitmask[KVS_MAX_KEY_GROUP_BYTES];
  uint8_t bit_pattern[KVS_MAX_KEY_GROUP_BYTES];
} kvs_key_group_filter;

/* The list holds, one behind the other without gaps: the length of a key (uint32_t), the key, and,
 * where values were asked for, the length of the value (uint32_t) and the value. */
typedef struct {
  uint32_t num_entries;
  bool end;         /* there is nothing behind these */
  uint32_t size;    /* bytes of the buffer; afterwards: bytes that were written */
  uint8_t *it_list;
} kvs_iterator_list;

/* What the function that an asynchronous call names is told. It is valid until that returns. */
typedef struct {
  kvs_context context;
  kvs_key_space_handle ks_hd;
  kvs_key *key;
  kvs_value *value;
  void *option;
  void *private1;
  void *private2;
  kvs_result result;
  kvs_iterator_handle iter_hd;
  union {
    kvs_iterator_list *iter_list;
    kvs_exist_list *list;
  } result_buffer;
} kvs_postprocess_context;

typedef void (*kvs_postprocess_function)(kvs_postprocess_context *ctx);

typedef struct {
  uint16_t key_len;
  uint8_t *key; /* room for the key, the caller's */
  uint32_t value_len;
} kvs_kvp_info;

#ifdef __cplusplus
}
#endif

#endif
