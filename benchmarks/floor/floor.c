// The least that a broker can do, behind the same librdkafka: recv, the checksum, pwrite, the answer; for a fetch, sendfile. No
// replication, no recovery, no limits, no more versions than it needs; whatever it does not expect ends it with one sentence.
//
//   floor PORT DIRECTORY
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PRODUCE = 0, FETCH = 1, LIST_OFFSETS = 2, METADATA = 3, API_VERSIONS = 18, CREATE_TOPICS = 19, DELETE_TOPICS = 20 };
enum { PARTITIONS_MAX = 64, TOPICS_MAX = 256, CONNECTIONS_MAX = 256, BUFFER = 8 << 20, ANSWER = 1 << 20, PARTS_MAX = 64 };
enum { ERROR_UNKNOWN_TOPIC = 3, ERROR_UNSUPPORTED_VERSION = 35 };

typedef struct { int64_t offset, position; } Batch;
typedef struct { int file; int64_t next_offset, end; Batch *batches; long count, room; } Partition;
typedef struct { char name[256]; int partitions; Partition partition[PARTITIONS_MAX]; } Topic;
typedef struct { int socket; uint8_t *buffer; size_t start, end; int parked; double deadline_s; } Connection;
typedef struct { uint8_t *at, *end; } Reader;
typedef struct { int file; int64_t position; size_t before, bytes; } Region;

static Topic *topics[TOPICS_MAX];
static int topic_count, port, poller;
static const char *directory;
static Connection *connections[CONNECTIONS_MAX];
static uint8_t answer[ANSWER];
static size_t answered;
static Region regions[PARTS_MAX];
static int region_count;

static void fail(const char *what) { fprintf(stderr, "floor: %s\n", what); exit(1); }
static double now_s(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (double)t.tv_sec + (double)t.tv_nsec / 1e9; }

static uint32_t crc32c(const uint8_t *data, size_t size) {
#ifdef __SSE4_2__
  uint64_t crc = 0xFFFFFFFFu;
  for (; size >= 8; data += 8, size -= 8) { uint64_t word; memcpy(&word, data, 8); crc = __builtin_ia32_crc32di(crc, word); }
  uint32_t rest = (uint32_t)crc;
  for (; size; data++, size--) rest = __builtin_ia32_crc32qi(rest, *data);
  return ~rest;
#else
  uint32_t crc = 0xFFFFFFFFu;
  for (; size; data++, size--) { crc ^= *data; for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0x82F63B78u & -(crc & 1)); }
  return ~crc;
#endif
}

static uint8_t *take(Reader *r, size_t n) { if ((size_t)(r->end - r->at) < n) fail("a request is cut short"); r->at += n; return r->at - n; }
static int64_t number(Reader *r, int bytes) { uint8_t *p = take(r, (size_t)bytes); int64_t v = (int8_t)p[0]; for (int i = 1; i < bytes; i++) v = (int64_t)((uint64_t)v << 8 | p[i]); return v; }
static const char *string(Reader *r, char *into) { int64_t n = number(r, 2); into[0] = 0; if (n > 255) fail("a name is too long"); if (n > 0) { memcpy(into, take(r, (size_t)n), (size_t)n); into[n] = 0; } return into; }

static void put(const void *data, size_t n) { if (answered + n > ANSWER) fail("an answer is too long"); memcpy(answer + answered, data, n); answered += n; }
static void put_number(int64_t value, int bytes) { uint8_t p[8]; for (int i = bytes - 1; i >= 0; i--) { p[i] = (uint8_t)value; value >>= 8; } put(p, (size_t)bytes); }
static void put_string(const char *text) { put_number((int64_t)strlen(text), 2); put(text, strlen(text)); }

static Topic *find(const char *name) { for (int i = 0; i < topic_count; i++) if (topics[i] && !strcmp(topics[i]->name, name)) return topics[i]; return NULL; }

static void create(const char *name, int partitions) {
  if (find(name)) return;
  if (topic_count == TOPICS_MAX || partitions > PARTITIONS_MAX || partitions < 1) fail("too many topics or partitions");
  Topic *made = calloc(1, sizeof *made);
  if (!made) fail("out of memory");
  strcpy(made->name, name), made->partitions = partitions;
  for (int p = 0; p < partitions; p++) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s-%d.log", directory, name, p);
    made->partition[p].file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (made->partition[p].file < 0) fail("no file");
  }
  topics[topic_count++] = made;
}

static void delete(const char *name) {
  for (int i = 0; i < topic_count; i++)
    if (topics[i] && !strcmp(topics[i]->name, name)) {
      for (int p = 0; p < topics[i]->partitions; p++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s-%d.log", directory, name, p);
        close(topics[i]->partition[p].file), unlink(path), free(topics[i]->partition[p].batches);
      }
      free(topics[i]), topics[i] = topics[--topic_count];
      return;
    }
}

static int64_t append(Partition *p, uint8_t *batch, size_t size) {
  Reader header = {batch + 17, batch + 61};
  if (size < 61 || batch[16] != 2) fail("not a batch");
  if ((uint32_t)number(&header, 4) != crc32c(batch + 21, size - 21)) fail("a wrong checksum");
  header.at = batch + 23;
  int64_t base = p->next_offset, last = number(&header, 4);
  for (int i = 0; i < 8; i++) batch[i] = (uint8_t)(base >> (56 - 8 * i));
  memset(batch + 12, 0, 4);
  if (pwrite(p->file, batch, size, p->end) != (ssize_t)size) fail("not written");
  if (p->count == p->room) {
    p->room = p->room ? 2 * p->room : 1024;
    if (!(p->batches = realloc(p->batches, (size_t)p->room * sizeof *p->batches))) fail("out of memory");
  }
  p->batches[p->count++] = (Batch){base, p->end};
  p->end += (int64_t)size, p->next_offset = base + last + 1;
  return base;
}

static void produce(Reader *r, int *acks) {
  char name[256];
  string(r, name);
  *acks = (int)number(r, 2), number(r, 4);
  int64_t n = number(r, 4);
  put_number(n, 4);
  while (n-- > 0) {
    Topic *topic = find(string(r, name));
    if (!topic) fail("an unknown topic");
    put_string(name);
    int64_t m = number(r, 4);
    put_number(m, 4);
    while (m-- > 0) {
      int64_t index = number(r, 4), size = number(r, 4);
      uint8_t *records = take(r, (size_t)size);
      put_number(index, 4), put_number(0, 2), put_number(append(&topic->partition[index], records, (size_t)size), 8), put_number(-1, 8), put_number(0, 8);
    }
  }
  put_number(0, 4);
}

// Whether there is anything to send, or no more time.
static int fetch(Reader *r, Connection *c, int is_last) {
  char name[256];
  int64_t wait_ms, found = 0, n;
  number(r, 4), wait_ms = number(r, 4), number(r, 8), number(r, 1), number(r, 8);
  put_number(0, 4), put_number(0, 2), put_number(0, 4);
  n = number(r, 4), put_number(n, 4);
  while (n-- > 0) {
    Topic *topic = find(string(r, name));
    if (!topic) fail("an unknown topic");
    put_string(name);
    int64_t m = number(r, 4);
    put_number(m, 4);
    while (m-- > 0) {
      int64_t index = number(r, 4), offset, most, size = 0, at = 0;
      number(r, 4), offset = number(r, 8), number(r, 8), most = number(r, 4);
      Partition *p = &topic->partition[index];
      if (offset < p->next_offset) {
        long low = 0, high = p->count - 1;
        while (low < high) { long middle = (low + high + 1) / 2; if (p->batches[middle].offset <= offset) low = middle; else high = middle - 1; }
        at = p->batches[low].position, size = p->end - at;
        if (size > most) {
          long last = low + 1;
          while (last < p->count && p->batches[last].position - at <= most) last++;
          size = (last - 1 > low ? p->batches[last - 1].position : last < p->count ? p->batches[last].position : p->end) - at;
        }
      }
      put_number(index, 4), put_number(0, 2), put_number(p->next_offset, 8), put_number(p->next_offset, 8), put_number(0, 8), put_number(-1, 4), put_number(-1, 4), put_number(size, 4);
      if (size) { if (region_count == PARTS_MAX) fail("too many partitions"); regions[region_count++] = (Region){p->file, at, answered, (size_t)size}; }
      found += size;
    }
  }
  if (found || is_last || wait_ms <= 0) return 1;
  if (!c->parked) c->deadline_s = now_s() + (double)wait_ms / 1e3;
  return 0;
}

static void metadata(Reader *r, int version) {
  char names[TOPICS_MAX][256];
  int64_t n = number(r, 4);
  if (n > TOPICS_MAX) fail("too many topics");
  for (int64_t i = 0; i < n; i++) string(r, names[i]);
  if (version >= 3) put_number(0, 4);
  put_number(1, 4), put_number(1, 4), put_string("127.0.0.1"), put_number(port, 4), put_number(-1, 2);
  if (version >= 2) put_string("floor");
  put_number(1, 4);
  if (n < 0) for (n = 0; n < topic_count; n++) strcpy(names[n], topics[n]->name);
  put_number(n, 4);
  for (int64_t i = 0; i < n; i++) {
    Topic *topic = find(names[i]);
    put_number(topic ? 0 : ERROR_UNKNOWN_TOPIC, 2), put_string(names[i]), put_number(0, 1), put_number(topic ? topic->partitions : 0, 4);
    for (int p = 0; topic && p < topic->partitions; p++)
      put_number(0, 2), put_number(p, 4), put_number(1, 4), put_number(1, 4), put_number(1, 4), put_number(1, 4), put_number(1, 4);
  }
}

static void list_offsets(Reader *r, int version) {
  char name[256];
  number(r, 4);
  if (version >= 2) number(r, 1), put_number(0, 4);
  int64_t n = number(r, 4);
  put_number(n, 4);
  while (n-- > 0) {
    Topic *topic = find(string(r, name));
    put_string(name);
    int64_t m = number(r, 4);
    put_number(m, 4);
    while (m-- > 0) {
      int64_t index = number(r, 4), when = number(r, 8);
      put_number(index, 4), put_number(topic ? 0 : ERROR_UNKNOWN_TOPIC, 2), put_number(-1, 8), put_number(!topic ? -1 : when == -1 ? topic->partition[index].next_offset : 0, 8);
    }
  }
}

static void create_topics(Reader *r) {
  char name[256];
  int64_t n = number(r, 4), partitions;
  if (n != 1) fail("one topic at a time");
  string(r, name), partitions = number(r, 4);
  create(name, (int)partitions);
  put_number(0, 4), put_number(1, 4), put_string(name), put_number(0, 2), put_number(-1, 2);
}

static void delete_topics(Reader *r) {
  char name[256];
  int64_t n = number(r, 4);
  put_number(0, 4), put_number(n, 4);
  while (n-- > 0) delete(string(r, name)), put_string(name), put_number(0, 2);
}

static void api_versions(int version) {
  static const int16_t announced[][3] = {{PRODUCE, 3, 7}, {FETCH, 4, 11}, {LIST_OFFSETS, 1, 2}, {METADATA, 1, 4}, {API_VERSIONS, 0, 0}, {CREATE_TOPICS, 2, 2}, {DELETE_TOPICS, 1, 1}};
  int count = (int)(sizeof announced / sizeof announced[0]);
  put_number(version ? ERROR_UNSUPPORTED_VERSION : 0, 2), put_number(count, 4);
  for (int i = 0; i < count; i++) for (int j = 0; j < 3; j++) put_number(announced[i][j], 2);
}

static void send_all(int to, const uint8_t *data, size_t n, int flags) {
  while (n) { ssize_t sent = send(to, data, n, flags | MSG_NOSIGNAL); if (sent <= 0) return; data += sent, n -= (size_t)sent; }
}

static void flush(Connection *c) {
  size_t size = answered - 4, done = 0;
  for (int i = 0; i < region_count; i++) size += regions[i].bytes;
  for (int i = 0; i < 4; i++) answer[i] = (uint8_t)(size >> (24 - 8 * i));
  for (int i = 0; i < region_count; i++) {
    Region *part = &regions[i];
    send_all(c->socket, answer + done, part->before - done, MSG_MORE), done = part->before;
    off_t at = part->position;
    while (part->bytes) { ssize_t sent = sendfile(c->socket, part->file, &at, part->bytes); if (sent <= 0) return; part->bytes -= (size_t)sent; }
  }
  if (answered > done) send_all(c->socket, answer + done, answered - done, 0);
}

// One request. Whether it is done, or waits for records.
static int serve(Connection *c, uint8_t *frame, size_t size, int is_last) {
  Reader r = {frame, frame + size};
  int64_t key = number(&r, 2), version = number(&r, 2), correlation = number(&r, 4), client = number(&r, 2);
  if (client > 0) take(&r, (size_t)client);
  int acks = 1, is_done = 1;
  answered = 0, region_count = 0;
  put_number(0, 4), put_number(correlation, 4);
  if (key == PRODUCE && version == 7) produce(&r, &acks);
  else if (key == FETCH && version == 11) is_done = fetch(&r, c, is_last);
  else if (key == LIST_OFFSETS) list_offsets(&r, (int)version);
  else if (key == METADATA) metadata(&r, (int)version);
  else if (key == API_VERSIONS) api_versions((int)version);
  else if (key == CREATE_TOPICS) create_topics(&r);
  else if (key == DELETE_TOPICS) delete_topics(&r);
  else fail("a request that the floor does not have");
  if (is_done && acks) flush(c);
  return is_done;
}

// All whole requests that have been read. Whether anything was written, for those who wait.
static int serve_all(Connection *c, int is_last) {
  int wrote = 0;
  while (c->end - c->start >= 4) {
    uint8_t *frame = c->buffer + c->start;
    size_t size = (size_t)frame[0] << 24 | (size_t)frame[1] << 16 | (size_t)frame[2] << 8 | frame[3];
    if (size > BUFFER - 4) fail("a request is too large");
    if (c->end - c->start < 4 + size) break;
    c->parked = !serve(c, frame + 4, size, is_last);
    if (c->parked) return wrote;
    wrote |= frame[4] == 0 && frame[5] == PRODUCE;
    c->start += 4 + size, is_last = 0;
  }
  memmove(c->buffer, c->buffer + c->start, c->end - c->start), c->end -= c->start, c->start = 0;
  return wrote;
}

static void drop(int slot) { close(connections[slot]->socket), free(connections[slot]->buffer), free(connections[slot]), connections[slot] = NULL; }

static void accept_one(int listening) {
  int slot = 0, on = 1, made = accept(listening, NULL, NULL);
  if (made < 0) return;
  while (slot < CONNECTIONS_MAX && connections[slot]) slot++;
  if (slot == CONNECTIONS_MAX) fail("too many connections");
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  Connection *c = connections[slot] = calloc(1, sizeof *c);
  if (!c || !(c->buffer = malloc(BUFFER))) fail("out of memory");
  c->socket = made;
  struct epoll_event event = {EPOLLIN, {.u32 = (uint32_t)slot + 1}};
  epoll_ctl(poller, EPOLL_CTL_ADD, made, &event);
}

int main(int argc, char **argv) {
  if (argc != 3) fail("usage: floor PORT DIRECTORY");
  port = atoi(argv[1]), directory = argv[2], poller = epoll_create1(0);
  int listening = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listening, (struct sockaddr *)&place, sizeof place) || listen(listening, 128)) fail("the port is not free");
  struct epoll_event event = {EPOLLIN, {.u32 = 0}}, events[64];
  epoll_ctl(poller, EPOLL_CTL_ADD, listening, &event);
  for (;;) {
    int timeout_ms = -1, wrote = 0;
    for (int i = 0; i < CONNECTIONS_MAX; i++)
      if (connections[i] && connections[i]->parked) {
        int left_ms = (int)((connections[i]->deadline_s - now_s()) * 1e3) + 1;
        if (left_ms < 0) left_ms = 0;
        if (timeout_ms < 0 || left_ms < timeout_ms) timeout_ms = left_ms;
      }
    int n = epoll_wait(poller, events, 64, timeout_ms);
    for (int i = 0; i < n; i++) {
      if (!events[i].data.u32) { accept_one(listening); continue; }
      int slot = (int)events[i].data.u32 - 1;
      Connection *c = connections[slot];
      if (c->start && c->end == BUFFER) memmove(c->buffer, c->buffer + c->start, c->end - c->start), c->end -= c->start, c->start = 0;
      ssize_t got = recv(c->socket, c->buffer + c->end, BUFFER - c->end, MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) { drop(slot); continue; }
      if (got > 0) c->end += (size_t)got;
      if (!c->parked) wrote |= serve_all(c, 0);
    }
    double time_s = now_s();
    for (int i = 0; i < CONNECTIONS_MAX; i++)
      if (connections[i] && connections[i]->parked && (wrote || connections[i]->deadline_s <= time_s))
        serve_all(connections[i], connections[i]->deadline_s <= time_s);
  }
}
