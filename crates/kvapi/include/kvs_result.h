/* Results of the Key Value Storage API (SNIA, version 1.1), with the values that OpenMPDK gives them. */
#ifndef MYNAH_KVS_RESULT_H
#define MYNAH_KVS_RESULT_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  KVS_SUCCESS = 0x000,
  KVS_ERR_BUFFER_SMALL = 0x001,             /* the buffer has got what it has room for */
  KVS_ERR_DEV_CAPAPCITY = 0x002,            /* sic; the device has not so much room */
  KVS_ERR_DEV_NOT_EXIST = 0x003,
  KVS_ERR_KS_CAPACITY = 0x004,              /* the key space, or its device, is full */
  KVS_ERR_KS_EXIST = 0x005,
  KVS_ERR_KS_INDEX = 0x006,
  KVS_ERR_KS_NAME = 0x007,
  KVS_ERR_KS_NOT_EXIST = 0x008,
  KVS_ERR_KS_NOT_OPEN = 0x009,
  KVS_ERR_KS_OPEN = 0x00A,
  KVS_ERR_ITERATOR_FILTER_INVALID = 0x00B,
  KVS_ERR_ITERATOR_MAX = 0x00C,
  KVS_ERR_ITERATOR_NOT_EXIST = 0x00D,
  KVS_ERR_ITERATOR_OPEN = 0x00E,
  KVS_ERR_KEY_LENGTH_INVALID = 0x00F,
  KVS_ERR_KEY_NOT_EXIST = 0x010,
  KVS_ERR_OPTION_INVALID = 0x011,
  KVS_ERR_PARAM_INVALID = 0x012,
  KVS_ERR_SYS_IO = 0x013,
  KVS_ERR_VALUE_LENGTH_INVALID = 0x014,
  KVS_ERR_VALUE_OFFSET_INVALID = 0x015,
  KVS_ERR_VALUE_OFFSET_MISALIGNED = 0x016,
  KVS_ERR_VALUE_UPDATE_NOT_ALLOWED = 0x017, /* the key exists, and is not to be overwritten */
  KVS_ERR_DEV_NOT_OPENED = 0x018
} kvs_result;

/* The name as SNIA spells it. */
#define KVS_ERR_DEV_CAPACITY KVS_ERR_DEV_CAPAPCITY

#ifdef __cplusplus
}
#endif

#endif
