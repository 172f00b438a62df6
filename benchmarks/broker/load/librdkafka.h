// The part of librdkafka's C interface that the load uses.
//
// The wheel of confluent-kafka brings a current librdkafka but no header. These are the library's public symbols and the one
// public structure, whose layout its major version keeps (librdkafka.so.1).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;

typedef struct {
  int err;
  rd_kafka_topic_t *topic;
  int32_t partition;
  void *payload;
  size_t len;
  void *key;
  size_t key_len;
  int64_t offset;
  void *internal;
} rd_kafka_message_t;

enum { RD_KAFKA_PRODUCER = 0, RD_KAFKA_CONSUMER = 1 };
enum { RD_KAFKA_CONF_OK = 0, RD_KAFKA_MSG_F_COPY = 2, RD_KAFKA_PARTITION_UA = -1, RD_KAFKA_OFFSET_BEGINNING = -2 };
enum { RD_KAFKA_RESP_ERR__QUEUE_FULL = -184 };

const char *rd_kafka_version_str(void);
const char *rd_kafka_err2str(int error);
int rd_kafka_last_error(void);

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *name, const char *value, char *message, size_t message_size);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
void rd_kafka_conf_set_error_cb(rd_kafka_conf_t *, void (*)(rd_kafka_t *, int error, const char *reason, void *));

rd_kafka_t *rd_kafka_new(int type, rd_kafka_conf_t *, char *message, size_t message_size);
void rd_kafka_destroy(rd_kafka_t *);
int rd_kafka_poll(rd_kafka_t *, int timeout_ms);
int rd_kafka_outq_len(rd_kafka_t *);
int rd_kafka_query_watermark_offsets(rd_kafka_t *, const char *topic, int32_t partition, int64_t *low, int64_t *high, int timeout_ms);

rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *name, rd_kafka_topic_conf_t *);
void rd_kafka_topic_destroy(rd_kafka_topic_t *);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t partition, int flags, void *payload, size_t size, const void *key, size_t key_size, void *opaque);

rd_kafka_queue_t *rd_kafka_queue_new(rd_kafka_t *);
void rd_kafka_queue_destroy(rd_kafka_queue_t *);
int rd_kafka_consume_start_queue(rd_kafka_topic_t *, int32_t partition, int64_t offset, rd_kafka_queue_t *);
int rd_kafka_consume_stop(rd_kafka_topic_t *, int32_t partition);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int timeout_ms, rd_kafka_message_t **, size_t count_max);
rd_kafka_message_t *rd_kafka_consume_queue(rd_kafka_queue_t *, int timeout_ms);
void rd_kafka_message_destroy(rd_kafka_message_t *);
