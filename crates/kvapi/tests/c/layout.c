/* Layouts and values, against the numbers that OpenMPDK's headers give on x86-64 and AArch64 Linux. */
#include <kvs_api.h>
#include <stddef.h>

#ifdef __cplusplus
#define SAME(a, b) static_assert((a) == (b), #a)
#else
#define SAME(a, b) _Static_assert((a) == (b), #a)
#endif

#define SIZE(type, bytes) SAME(sizeof(type), bytes)
#define AT(type, field, offset) SAME(offsetof(type, field), offset)

SIZE(kvs_api_version, 3);
SIZE(kvs_result, 4);
SIZE(kvs_context, 4);
SIZE(kvs_option_key_space, 4);
SIZE(kvs_option_delete, 1);
SIZE(kvs_option_iterator, 4);
SIZE(kvs_option_retrieve, 1);
SIZE(kvs_iterator_handle, 1);
SIZE(kvs_key, 16);
AT(kvs_key, key, 0);
AT(kvs_key, length, 8);
SIZE(kvs_value, 24);
AT(kvs_value, value, 0);
AT(kvs_value, length, 8);
AT(kvs_value, actual_value_size, 12);
AT(kvs_value, offset, 16);
SIZE(kvs_association, 8);
AT(kvs_association, assoc_hint, 4);
SIZE(kvs_option_store, 16);
AT(kvs_option_store, st_type, 0);
AT(kvs_option_store, assoc, 8);
SIZE(kvs_key_space_name, 16);
AT(kvs_key_space_name, name_len, 0);
AT(kvs_key_space_name, name, 8);
SIZE(kvs_key_space, 40);
AT(kvs_key_space, opened, 0);
AT(kvs_key_space, capacity, 8);
AT(kvs_key_space, free_size, 16);
AT(kvs_key_space, count, 24);
AT(kvs_key_space, name, 32);
SIZE(kvs_device, 40);
AT(kvs_device, capacity, 0);
AT(kvs_device, unalloc_capacity, 8);
AT(kvs_device, max_value_len, 16);
AT(kvs_device, max_key_len, 20);
AT(kvs_device, optimal_value_len, 24);
AT(kvs_device, optimal_value_granularity, 28);
AT(kvs_device, extended_info, 32);
SIZE(kvs_exist_list, 32);
AT(kvs_exist_list, num_keys, 0);
AT(kvs_exist_list, keys, 8);
AT(kvs_exist_list, length, 16);
AT(kvs_exist_list, result_buffer, 24);
SIZE(kvs_key_group_filter, 8);
AT(kvs_key_group_filter, bitmask, 0);
AT(kvs_key_group_filter, bit_pattern, 4);
SIZE(kvs_iterator_list, 24);
AT(kvs_iterator_list, num_entries, 0);
AT(kvs_iterator_list, end, 4);
AT(kvs_iterator_list, size, 8);
AT(kvs_iterator_list, it_list, 16);
SIZE(kvs_postprocess_context, 72);
AT(kvs_postprocess_context, context, 0);
AT(kvs_postprocess_context, ks_hd, 8);
AT(kvs_postprocess_context, key, 16);
AT(kvs_postprocess_context, value, 24);
AT(kvs_postprocess_context, option, 32);
AT(kvs_postprocess_context, private1, 40);
AT(kvs_postprocess_context, private2, 48);
AT(kvs_postprocess_context, result, 56);
AT(kvs_postprocess_context, iter_hd, 60);
AT(kvs_postprocess_context, result_buffer, 64);
SIZE(kvs_kvp_info, 24);
AT(kvs_kvp_info, key_len, 0);
AT(kvs_kvp_info, key, 8);
AT(kvs_kvp_info, value_len, 16);

SAME(KVS_ERR_DEV_CAPAPCITY, 0x02);
SAME(KVS_ERR_KS_NOT_OPEN, 0x09);
SAME(KVS_ERR_KEY_LENGTH_INVALID, 0x0f);
SAME(KVS_ERR_KEY_NOT_EXIST, 0x10);
SAME(KVS_ERR_VALUE_UPDATE_NOT_ALLOWED, 0x17);
SAME(KVS_ERR_DEV_NOT_OPENED, 0x18);
SAME(KVS_CMD_STORE, 8);
SAME(KVS_CMD_ITER_NEXT, 6);
SAME(KVS_STORE_APPEND, 3);
SAME(KVS_MAX_VALUE_LENGTH, 2097152);
SAME(MAX_KEYSPACE_NAME_LEN, 255);

int main(void) { return 0; }
