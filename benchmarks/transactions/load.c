// Transactions on any cluster that speaks Kafka's protocol: what could not be ended as wanted ends the program with 1.
//
//   load write BOOTSTRAP TOPIC PARTITIONS PRODUCERS TRANSACTIONS RECORDS SIZE ABORTED_OF_TEN [property=value]...
//       as many producers at once, each with so many transactions one after another, of so many records each. Of every ten
//       transactions the first ABORTED_OF_TEN are aborted. Tells how long each transaction took, from begin to its end's answer.
//   load read  BOOTSTRAP TOPIC PARTITIONS COUNT SIZE [property=value]...
//       what is there for a reader with these properties, from the start, by assignment: exactly COUNT records.
//
// A property is one of librdkafka's. The outcome is one JSON object on standard output.
#include "../broker/load/librdkafka.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

// What has not come after this long will not come.
#define SILENCE_S 60
#define BATCH_RECORDS 10000
#define DISCARDED 20

typedef struct rd_kafka_error_s rd_kafka_error_t;
rd_kafka_error_t *rd_kafka_init_transactions(rd_kafka_t *, int timeout_ms);
rd_kafka_error_t *rd_kafka_begin_transaction(rd_kafka_t *);
rd_kafka_error_t *rd_kafka_commit_transaction(rd_kafka_t *, int timeout_ms);
rd_kafka_error_t *rd_kafka_abort_transaction(rd_kafka_t *, int timeout_ms);
const char *rd_kafka_error_string(const rd_kafka_error_t *);
int rd_kafka_flush(rd_kafka_t *, int timeout_ms);

typedef struct {
  const char *bootstrap, *topic;
  int partitions, producers, aborted_of_ten;
  long transactions, records;
  size_t size;
  char **properties;
  int property_count;
} Job;

typedef struct {
  const Job *job;
  int number;
  double *samples_s;
  pthread_barrier_t *ready;
} Writer;

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

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
  char message[512];
  if (rd_kafka_conf_set(conf, name, value, message, sizeof message) != RD_KAFKA_CONF_OK) fail_for(name, message);
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
  (void)client, (void)opaque;
  if (message->err) fail_for("a record was not delivered", rd_kafka_err2str(message->err));
}

static void on_error(rd_kafka_t *client, int error, const char *reason, void *opaque) {
  (void)client, (void)opaque;
  fail_for(rd_kafka_err2str(error), reason);
}

static rd_kafka_conf_t *new_conf(const Job *job) {
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  set(conf, "bootstrap.servers", job->bootstrap);
  for (int i = 0; i < job->property_count; i++) {
    char *name = strdup(job->properties[i]), *value = name ? strchr(name, '=') : NULL;
    if (!value) fail_for("not a property=value", job->properties[i]);
    *value++ = 0;
    set(conf, name, value);
    free(name);
  }
  rd_kafka_conf_set_error_cb(conf, on_error);
  return conf;
}

static rd_kafka_t *new_client(int type, rd_kafka_conf_t *conf) {
  char message[512];
  rd_kafka_t *client = rd_kafka_new(type, conf, message, sizeof message);
  if (!client) fail_for("no client", message);
  return client;
}

static void check(rd_kafka_error_t *error, const char *what) {
  if (error) fail_for(what, rd_kafka_error_string(error));
}

static void *write_all(void *given) {
  Writer *writer = given;
  const Job *job = writer->job;
  char name[64];
  snprintf(name, sizeof name, "%s-%d", job->topic, writer->number);
  rd_kafka_conf_t *conf = new_conf(job);
  set(conf, "transactional.id", name);
  rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
  rd_kafka_t *producer = new_client(RD_KAFKA_PRODUCER, conf);
  rd_kafka_topic_t *topic = rd_kafka_topic_new(producer, job->topic, NULL);
  check(rd_kafka_init_transactions(producer, SILENCE_S * 1000), "a producer was not initialised");
  unsigned char *record = malloc(job->size);
  if (!record) fail_for("malloc", "out of memory");
  memset(record, 'x', job->size);
  for (long i = -DISCARDED; i < job->transactions; i++) {
    if (i == 0) pthread_barrier_wait(writer->ready);
    double begun_s = now_s();
    check(rd_kafka_begin_transaction(producer), "no transaction began");
    for (long n = 0; n < job->records; n++) {
      int32_t partition = (int32_t)((writer->number + n) % job->partitions);
      while (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, record, job->size, NULL, 0, NULL) != 0) {
        int error = rd_kafka_last_error();
        if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) fail_for("a record was not taken", rd_kafka_err2str(error));
        rd_kafka_poll(producer, 1);
      }
    }
    // An abort would throw away what is not sent yet.
    if (i >= 0 && i % 10 < job->aborted_of_ten) {
      if (rd_kafka_flush(producer, SILENCE_S * 1000)) fail_for("flush", "records were not acknowledged");
      check(rd_kafka_abort_transaction(producer, SILENCE_S * 1000), "a transaction was not aborted");
    } else {
      check(rd_kafka_commit_transaction(producer, SILENCE_S * 1000), "a transaction was not committed");
    }
    if (i >= 0) writer->samples_s[i] = now_s() - begun_s;
  }
  rd_kafka_topic_destroy(topic);
  rd_kafka_destroy(producer);
  free(record);
  return NULL;
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

static void write_transactions(const Job *job) {
  long count = job->producers * job->transactions;
  double *samples_s = malloc((size_t)count * sizeof *samples_s);
  pthread_t *threads = calloc((size_t)job->producers, sizeof *threads);
  Writer *writers = calloc((size_t)job->producers, sizeof *writers);
  pthread_barrier_t ready;
  if (!samples_s || !threads || !writers) fail_for("malloc", "out of memory");
  pthread_barrier_init(&ready, NULL, (unsigned)job->producers + 1);
  for (int i = 0; i < job->producers; i++) {
    writers[i] = (Writer){job, i, samples_s + i * job->transactions, &ready};
    if (pthread_create(&threads[i], NULL, write_all, &writers[i])) fail_for("pthread_create", "no thread");
  }
  pthread_barrier_wait(&ready);
  // Whoever measures the broker takes its reading now: all producers are there, and nothing of it is counted.
  printf("ready\n");
  fflush(stdout);
  double begun_s = now_s();
  for (int i = 0; i < job->producers; i++) pthread_join(threads[i], NULL);
  double taken_s = now_s() - begun_s;
  qsort(samples_s, (size_t)count, sizeof *samples_s, ascending);
  printf("{\"transactions\": %ld, \"records\": %ld, \"seconds\": %.6f, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"client_cpu_s\": %.3f}\n",
         count, count * job->records, taken_s, quantile(samples_s, count, 0.5) * 1e3, quantile(samples_s, count, 0.99) * 1e3,
         cpu_s());
}

static void read_records(const Job *job) {
  static rd_kafka_message_t *messages[BATCH_RECORDS];
  rd_kafka_t *consumer = new_client(RD_KAFKA_CONSUMER, new_conf(job));
  rd_kafka_topic_t *topic = rd_kafka_topic_new(consumer, job->topic, NULL);
  rd_kafka_queue_t *queue = rd_kafka_queue_new(consumer);
  for (int p = 0; p < job->partitions; p++)
    if (rd_kafka_consume_start_queue(topic, p, RD_KAFKA_OFFSET_BEGINNING, queue) != 0)
      fail_for("consuming did not start", rd_kafka_err2str(rd_kafka_last_error()));
  printf("ready\n");
  fflush(stdout);
  double begun_s = now_s(), heard_s = begun_s;
  long got = 0;
  while (got < job->records) {
    ssize_t n = rd_kafka_consume_batch_queue(queue, 200, messages, BATCH_RECORDS);
    if (n > 0) heard_s = now_s();
    else if (now_s() - heard_s > SILENCE_S) fail_for("read", "records are missing: no more came");
    for (ssize_t i = 0; i < n; i++) {
      if (messages[i]->err) fail_for("fetching failed", rd_kafka_err2str(messages[i]->err));
      if (messages[i]->len != job->size) fail_for("read", "a record came back with another size");
      rd_kafka_message_destroy(messages[i]);
    }
    got += n > 0 ? (long)n : 0;
  }
  double taken_s = now_s() - begun_s;
  if (got != job->records) fail_for("read", "more records came than may be seen");
  for (int p = 0; p < job->partitions; p++) rd_kafka_consume_stop(topic, p);
  rd_kafka_queue_destroy(queue);
  rd_kafka_topic_destroy(topic);
  rd_kafka_destroy(consumer);
  printf("{\"transactions\": 0, \"records\": %ld, \"seconds\": %.6f, \"p50_ms\": 0, \"p99_ms\": 0, \"client_cpu_s\": %.3f}\n", got,
         taken_s, cpu_s());
}

int main(int argc, char **argv) {
  if (argc >= 10 && !strcmp(argv[1], "write")) {
    Job job = {argv[2], argv[3], atoi(argv[4]), atoi(argv[5]), atoi(argv[9]), atol(argv[6]), atol(argv[7]), (size_t)atol(argv[8]),
               argv + 10, argc - 10};
    write_transactions(&job);
  } else if (argc >= 7 && !strcmp(argv[1], "read")) {
    Job job = {argv[2], argv[3], atoi(argv[4]), 0, 0, 0, atol(argv[5]), (size_t)atol(argv[6]), argv + 7, argc - 7};
    read_records(&job);
  } else {
    fail_for("usage", "load write|read ...: see its source");
  }
  return 0;
}
