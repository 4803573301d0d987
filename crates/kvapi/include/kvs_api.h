/* The Key Value Storage API (SNIA, version 1.1) in front of Mynah's key-value drives, source and binary
 * compatible with OpenMPDK's. docs/key-value.md says how to build with it and what differs.
 *
 * Every call may be made by any thread. Whatever a pointer points to has to stay as it is until the call
 * returns and, in asynchronous calls, until the function that they name is called; that happens on a
 * thread of the device. A handle that is not open is an error, and nothing worse. */
#ifndef MYNAH_KVS_API_H
#define MYNAH_KVS_API_H

#include <memory.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "kvs_const.h"
#include "kvs_result.h"
#include "kvs_struct.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Memory. `alignment` is a power of two, or 0. */
void *_kvs_zalloc(size_t size_bytes, size_t alignment, const char *file);
void *_kvs_malloc(size_t size_bytes, size_t alignment, const char *file);
void _kvs_free(void *buf, const char *file);
#define kvs_zalloc(size, alignment) _kvs_zalloc((size), (alignment), __FILE__)
#define kvs_malloc(size, alignment) _kvs_malloc((size), (alignment), __FILE__)
#define kvs_free(buf) _kvs_free((buf), __FILE__)

/* Devices. The URI is one of
 *   /dev/kvemul                          the drive kv-tlc, in this process
 *   mynah:DRIVE[,store=pattern][,speed=N]  a shipped drive or a drive file, in this process
 *   tcp://HOST[:PORT][/NQN][,nsid=N]     a namespace served over NVMe/TCP
 *   vfio-user:DIR[,nsid=N]               one served over vfio-user */
kvs_result kvs_open_device(char *URI, kvs_device_handle *dev_hd);
kvs_result kvs_close_device(kvs_device_handle dev_hd);
kvs_result kvs_get_device_info(kvs_device_handle dev_hd, kvs_device *dev_info);
kvs_result kvs_get_device_capacity(kvs_device_handle dev_hd, uint64_t *dev_capacity);
/* In ten thousandths. */
kvs_result kvs_get_device_utilization(kvs_device_handle dev_hd, uint32_t *dev_utilization);
kvs_result kvs_get_min_key_length(kvs_device_handle dev_hd, uint32_t *min_key_length);
kvs_result kvs_get_max_key_length(kvs_device_handle dev_hd, uint32_t *max_key_length);
kvs_result kvs_get_min_value_length(kvs_device_handle dev_hd, uint32_t *min_value_length);
kvs_result kvs_get_max_value_length(kvs_device_handle dev_hd, uint32_t *max_value_length);
kvs_result kvs_get_optimal_value_length(kvs_device_handle dev_hd, uint32_t *opt_value_length);

/* Key spaces. A size of 0 is no limit but that of the device. Indices count from 1. */
kvs_result kvs_create_key_space(kvs_device_handle dev_hd, kvs_key_space_name *key_space_name,
                                uint64_t size, kvs_option_key_space opt);
kvs_result kvs_delete_key_space(kvs_device_handle dev_hd, kvs_key_space_name *key_space_name);
kvs_result kvs_list_key_spaces(kvs_device_handle dev_hd, uint32_t index, uint32_t buffer_size,
                               kvs_key_space_name *names, uint32_t *ks_cnt);
kvs_result kvs_open_key_space(kvs_device_handle dev_hd, char *name, kvs_key_space_handle *ks_hd);
kvs_result kvs_close_key_space(kvs_key_space_handle ks_hd);
kvs_result kvs_get_key_space_info(kvs_key_space_handle ks_hd, kvs_key_space *ks);

/* Pairs. Options may be NULL, which stands for zeros. */
kvs_result kvs_get_kvp_info(kvs_key_space_handle ks_hd, kvs_key *key, kvs_kvp_info *info);
kvs_result kvs_retrieve_kvp(kvs_key_space_handle ks_hd, kvs_key *key, kvs_option_retrieve *opt,
                            kvs_value *value);
kvs_result kvs_retrieve_kvp_async(kvs_key_space_handle ks_hd, kvs_key *key, kvs_option_retrieve *opt,
                                  void *private1, void *private2, kvs_value *value,
                                  kvs_postprocess_function post_fn);
kvs_result kvs_store_kvp(kvs_key_space_handle ks_hd, kvs_key *key, kvs_value *value,
                         kvs_option_store *opt);
kvs_result kvs_store_kvp_async(kvs_key_space_handle ks_hd, kvs_key *key, kvs_value *value,
                               kvs_option_store *opt, void *private1, void *private2,
                               kvs_postprocess_function post_fn);
kvs_result kvs_delete_kvp(kvs_key_space_handle ks_hd, kvs_key *key, kvs_option_delete *opt);
kvs_result kvs_delete_kvp_async(kvs_key_space_handle ks_hd, kvs_key *key, kvs_option_delete *opt,
                                void *private1, void *private2, kvs_postprocess_function post_fn);
kvs_result kvs_delete_key_group(kvs_key_space_handle ks_hd, kvs_key_group_filter *grp_fltr);
kvs_result kvs_delete_key_group_async(kvs_key_space_handle ks_hd, kvs_key_group_filter *grp_fltr,
                                      void *private1, void *private2,
                                      kvs_postprocess_function post_fn);
kvs_result kvs_exist_kv_pairs(kvs_key_space_handle ks_hd, uint32_t key_cnt, kvs_key *keys,
                              kvs_exist_list *list);
kvs_result kvs_exist_kv_pairs_async(kvs_key_space_handle ks_hd, uint32_t key_cnt, kvs_key *keys,
                                    kvs_exist_list *list, void *private1, void *private2,
                                    kvs_postprocess_function post_fn);

/* Iterators. The ones of a filter's mask have to come first. */
kvs_result kvs_create_iterator(kvs_key_space_handle ks_hd, kvs_option_iterator *iter_op,
                               kvs_key_group_filter *iter_fltr, kvs_iterator_handle *iter_hd);
kvs_result kvs_delete_iterator(kvs_key_space_handle ks_hd, kvs_iterator_handle iter_hd);
kvs_result kvs_iterate_next(kvs_key_space_handle ks_hd, kvs_iterator_handle iter_hd,
                            kvs_iterator_list *iter_list);
kvs_result kvs_iterate_next_async(kvs_key_space_handle ks_hd, kvs_iterator_handle iter_hd,
                                  kvs_iterator_list *iter_list, void *private1, void *private2,
                                  kvs_postprocess_function post_fn);

#ifdef __cplusplus
}
#endif

#endif
