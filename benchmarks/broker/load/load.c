// Load on any cluster that speaks Kafka's protocol, and proof that it was carried: every record is accounted for, or the program
// says in one sentence what was wrong and ends with 1.
//
//   load produce     BOOTSTRAP TOPIC PARTITIONS COUNT SIZE [property=value]...
//       keyless records into a new topic. Ends when all are acknowledged and the partitions' offsets say that all are there.
//   load consume     BOOTSTRAP TOPIC PARTITIONS COUNT SIZE [property=value]...
//       what `produce` wrote, from the start, by assignment: each record once, whole, and none besides.
//   load round-trip  BOOTSTRAP TOPIC PARTITIONS COUNT SIZE [property=value]...
//       one record at a time through partition 0, from a producer that does not linger to a consumer that waits for it.
//   load version
//
// A property is one of librdkafka's. The outcome is one JSON object on standard output.
#include "librdkafka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

// A record that has not come after this long will not come.
#define SILENCE_S 20.0
#define BATCH_RECORDS 10000
#define ROUND_TRIPS_DISCARDED 200
#define SEQUENCE_BYTES 8

typedef struct {
  const char *bootstrap, *topic;
  int partitions;
  long count;
  size_t size;
  char **properties;
  int property_count;
} Job;

static long acknowledged, refused, troubles;
static char trouble[512];

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void fail_for(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_s(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
  (void)client, (void)opaque;
  if (message->err) {
    if (!refused++) snprintf(trouble, sizeof trouble, "a record was not delivered: %s", rd_kafka_err2str(message->err));
  } else {
    acknowledged++;
  }
}

static void on_error(rd_kafka_t *client, int error, const char *reason, void *opaque) {
  (void)client, (void)opaque;
  if (!troubles++) snprintf(trouble, sizeof trouble, "the client reports %s: %s", rd_kafka_err2str(error), reason);
}

static void check_troubles(void) {
  if (troubles || refused) fail(trouble);
}

static rd_kafka_conf_t *new_conf(const Job *job) {
  char message[512];
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  if (rd_kafka_conf_set(conf, "bootstrap.servers", job->bootstrap, message, sizeof message) != RD_KAFKA_CONF_OK) fail(message);
  for (int i = 0; i < job->property_count; i++) {
    char *name = strdup(job->properties[i]), *value = name ? strchr(name, '=') : NULL;
    if (!value) fail_for("not a property=value", job->properties[i]);
    *value++ = 0;
    if (rd_kafka_conf_set(conf, name, value, message, sizeof message) != RD_KAFKA_CONF_OK) fail(message);
    free(name);
  }
  return conf;
}

static rd_kafka_t *new_client(int type, rd_kafka_conf_t *conf) {
  char message[512];
  rd_kafka_conf_set_error_cb(conf, on_error);
  if (type == RD_KAFKA_PRODUCER) rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
  rd_kafka_t *client = rd_kafka_new(type, conf, message, sizeof message);
  if (!client) fail(message);
  return client;
}

// A record is its number and then bytes that all records share and that no codec finds easy.
static unsigned char *new_pattern(size_t size) {
  unsigned char *pattern = malloc(size);
  if (!pattern) fail("out of memory");
  uint64_t state = 0x9E3779B97F4A7C15u;
  for (size_t i = 0; i < size; i++) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    pattern[i] = (unsigned char)state;
  }
  return pattern;
}

static void number_record(unsigned char *record, uint64_t number) { memcpy(record, &number, SEQUENCE_BYTES); }

// The record's number, or the end of the program where it is not a record of ours.
static uint64_t checked_number(const rd_kafka_message_t *message, const unsigned char *pattern, size_t size) {
  if (message->err) fail_for("fetching failed", rd_kafka_err2str(message->err));
  if (message->len != size) fail("a record came back with another size");
  const unsigned char *record = message->payload;
  if (memcmp(record + SEQUENCE_BYTES, pattern + SEQUENCE_BYTES, size - SEQUENCE_BYTES) != 0) fail("a record came back with other bytes");
  uint64_t number;
  memcpy(&number, record, SEQUENCE_BYTES);
  return number;
}

static void send_record(rd_kafka_t *producer, rd_kafka_topic_t *topic, int32_t partition, unsigned char *record, size_t size) {
  while (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, record, size, NULL, 0, NULL) != 0) {
    int error = rd_kafka_last_error();
    if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) fail_for("a record was not taken", rd_kafka_err2str(error));
    rd_kafka_poll(producer, 5);
    check_troubles();
  }
}

static void produce(const Job *job) {
  unsigned char *record = new_pattern(job->size);
  rd_kafka_t *producer = new_client(RD_KAFKA_PRODUCER, new_conf(job));
  rd_kafka_topic_t *topic = rd_kafka_topic_new(producer, job->topic, NULL);
  int64_t low, high, stored = 0;
  // The first question finds the broker and the topic, which is not what is measured.
  for (int p = 0; p < job->partitions; p++) {
    int error = rd_kafka_query_watermark_offsets(producer, job->topic, p, &low, &high, 10000);
    if (error) fail_for("no offsets before the load", rd_kafka_err2str(error));
    stored -= high;
  }
  double begun_s = now_s(), heard_s = begun_s;
  for (long i = 0; i < job->count; i++) {
    number_record(record, (uint64_t)i);
    send_record(producer, topic, job->partitions == 1 ? 0 : RD_KAFKA_PARTITION_UA, record, job->size);
    if ((i & 1023) == 1023) rd_kafka_poll(producer, 0);
  }
  for (long before = -1; rd_kafka_outq_len(producer) > 0;) {
    rd_kafka_poll(producer, 20);
    check_troubles();
    if (acknowledged != before) before = acknowledged, heard_s = now_s();
    else if (now_s() - heard_s > SILENCE_S) fail("the broker stopped acknowledging");
  }
  double taken_s = now_s() - begun_s;
  check_troubles();
  if (acknowledged != job->count) fail("not every record was acknowledged");
  for (int p = 0; p < job->partitions; p++) {
    int error = rd_kafka_query_watermark_offsets(producer, job->topic, p, &low, &high, 10000);
    if (error) fail_for("no offsets after the load", rd_kafka_err2str(error));
    stored += high;
  }
  if (stored != job->count) fail("the offsets say that more or fewer records are there than were sent");
  rd_kafka_topic_destroy(topic);
  rd_kafka_destroy(producer);
  printf("{\"records\": %ld, \"bytes\": %.0f, \"seconds\": %.6f, \"client_cpu_s\": %.3f}\n", job->count,
         (double)job->count * (double)job->size, taken_s, cpu_s());
}

static void consume(const Job *job) {
  static rd_kafka_message_t *messages[BATCH_RECORDS];
  unsigned char *pattern = new_pattern(job->size);
  unsigned char *seen = calloc((size_t)job->count / 8 + 1, 1);
  if (!seen) fail("out of memory");
  rd_kafka_t *consumer = new_client(RD_KAFKA_CONSUMER, new_conf(job));
  rd_kafka_topic_t *topic = rd_kafka_topic_new(consumer, job->topic, NULL);
  rd_kafka_queue_t *queue = rd_kafka_queue_new(consumer);
  double begun_s = now_s(), heard_s = begun_s;
  for (int p = 0; p < job->partitions; p++)
    if (rd_kafka_consume_start_queue(topic, p, RD_KAFKA_OFFSET_BEGINNING, queue) != 0)
      fail_for("consuming did not start", rd_kafka_err2str(rd_kafka_last_error()));
  long got = 0;
  while (got < job->count) {
    ssize_t n = rd_kafka_consume_batch_queue(queue, 200, messages, BATCH_RECORDS);
    rd_kafka_poll(consumer, 0);
    check_troubles();
    // From the first records on: how long a client takes to find its leader is not the broker's speed.
    if (n > 0 && !got) begun_s = now_s();
    if (n > 0) heard_s = now_s();
    else if (now_s() - heard_s > SILENCE_S) fail("records are missing: no more came");
    for (ssize_t i = 0; i < n; i++) {
      uint64_t number = checked_number(messages[i], pattern, job->size);
      if (number >= (uint64_t)job->count) fail("a record came that nobody sent");
      if (seen[number / 8] & (1u << number % 8)) fail("a record came twice");
      seen[number / 8] |= (unsigned char)(1u << number % 8);
      got++;
      rd_kafka_message_destroy(messages[i]);
    }
  }
  double taken_s = now_s() - begun_s;
  for (int p = 0; p < job->partitions; p++) rd_kafka_consume_stop(topic, p);
  rd_kafka_queue_destroy(queue);
  rd_kafka_topic_destroy(topic);
  rd_kafka_destroy(consumer);
  printf("{\"records\": %ld, \"bytes\": %.0f, \"seconds\": %.6f, \"client_cpu_s\": %.3f}\n", got,
         (double)got * (double)job->size, taken_s, cpu_s());
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// The smallest sample that at least this part of all do not exceed.
static double quantile(const double *sorted, long count, double part) {
  long rank = (long)(part * (double)count + 0.999999);
  return sorted[rank < 1 ? 0 : rank > count ? count - 1 : rank - 1];
}

static void round_trip(const Job *job) {
  unsigned char *record = new_pattern(job->size), *pattern = new_pattern(job->size);
  double *samples_s = malloc((size_t)job->count * sizeof *samples_s);
  if (!samples_s) fail("out of memory");
  rd_kafka_conf_t *at_once = new_conf(job);
  char message[512];
  if (rd_kafka_conf_set(at_once, "linger.ms", "0", message, sizeof message) != RD_KAFKA_CONF_OK) fail(message);
  rd_kafka_t *producer = new_client(RD_KAFKA_PRODUCER, at_once), *consumer = new_client(RD_KAFKA_CONSUMER, new_conf(job));
  rd_kafka_topic_t *to = rd_kafka_topic_new(producer, job->topic, NULL), *from = rd_kafka_topic_new(consumer, job->topic, NULL);
  rd_kafka_queue_t *queue = rd_kafka_queue_new(consumer);
  int64_t low, high;
  // By its offset, not "from the end": the first record must not pass the consumer by.
  int error = rd_kafka_query_watermark_offsets(consumer, job->topic, 0, &low, &high, 10000);
  if (error) fail_for("no offsets before the load", rd_kafka_err2str(error));
  if (rd_kafka_consume_start_queue(from, 0, high, queue) != 0) fail_for("consuming did not start", rd_kafka_err2str(rd_kafka_last_error()));
  double begun_s = now_s();
  for (long i = -ROUND_TRIPS_DISCARDED; i < job->count; i++) {
    uint64_t number = (uint64_t)(i + ROUND_TRIPS_DISCARDED);
    number_record(record, number);
    double sent_s = now_s();
    send_record(producer, to, 0, record, job->size);
    rd_kafka_message_t *came = rd_kafka_consume_queue(queue, (int)(SILENCE_S * 1000));
    double taken_s = now_s() - sent_s;
    if (!came) fail("a record did not come through");
    if (checked_number(came, pattern, job->size) != number) fail("another record came through than was sent");
    rd_kafka_message_destroy(came);
    rd_kafka_poll(producer, 0);
    rd_kafka_poll(consumer, 0);
    check_troubles();
    if (i >= 0) samples_s[i] = taken_s;
  }
  double whole_s = now_s() - begun_s;
  while (rd_kafka_outq_len(producer) > 0 && now_s() - begun_s < whole_s + SILENCE_S) rd_kafka_poll(producer, 20);
  check_troubles();
  if (acknowledged != job->count + ROUND_TRIPS_DISCARDED) fail("not every record was acknowledged");
  rd_kafka_consume_stop(from, 0);
  rd_kafka_queue_destroy(queue);
  rd_kafka_topic_destroy(from), rd_kafka_topic_destroy(to);
  rd_kafka_destroy(consumer), rd_kafka_destroy(producer);
  qsort(samples_s, (size_t)job->count, sizeof *samples_s, ascending);
  printf("{\"records\": %ld, \"seconds\": %.6f, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"max_ms\": %.4f, \"client_cpu_s\": %.3f}\n",
         job->count, whole_s, quantile(samples_s, job->count, 0.5) * 1e3, quantile(samples_s, job->count, 0.99) * 1e3,
         samples_s[job->count - 1] * 1e3, cpu_s());
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "version")) {
    printf("%s\n", rd_kafka_version_str());
    return 0;
  }
  if (argc < 7) fail("usage: load produce|consume|round-trip BOOTSTRAP TOPIC PARTITIONS COUNT SIZE [property=value]...");
  Job job = {argv[2], argv[3], atoi(argv[4]), atol(argv[5]), (size_t)atol(argv[6]), argv + 7, argc - 7};
  if (job.partitions < 1 || job.count < 1 || job.size < SEQUENCE_BYTES || job.size > 1 << 20)
    fail("PARTITIONS and COUNT are at least 1, SIZE is 8 to 1048576");
  if (!strcmp(argv[1], "produce")) produce(&job);
  else if (!strcmp(argv[1], "consume")) consume(&job);
  else if (!strcmp(argv[1], "round-trip")) round_trip(&job);
  else fail("produce, consume or round-trip");
  return 0;
}
