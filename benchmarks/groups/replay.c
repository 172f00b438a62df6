// Sends prepared requests over many connections, and holds every answer against the one that is expected.
//
//   replay PORT FILE COUNT RATE DEPTH
//
// FILE: the number of connections; for each the number of its requests; for each of those the request's size and bytes (with the
// size that goes before it on the wire) and the answer's size and bytes (without). All numbers are int32, big-endian. A connection
// sends its requests in turn, again and again, up to DEPTH of them in flight, until COUNT are answered on all connections together.
// RATE is how many requests a second leave, spread over the connections; with 0 there is no limit. An answer may differ from the
// expected one in its correlation id alone, which must be the request's. Otherwise, or when nothing comes for a while, the
// program says what was wrong and ends with 1. The outcome is one JSON object on standard output.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SILENCE_S 20.0
#define CORRELATION_AT 8
#define CORRELATION_BYTES 4
#define BUFFER_BYTES (1 << 18)

typedef struct {
  unsigned char *request, *answer;
  int request_size, answer_size;
} Exchange;

typedef struct {
  int fd, count, in_flight;
  long sent, answered;
  Exchange *exchanges;
  unsigned char out[BUFFER_BYTES], in[BUFFER_BYTES];
  int out_size, in_size;
} Connection;

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
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

static int read_int(FILE *file) {
  uint32_t value;
  if (fread(&value, sizeof value, 1, file) != 1) fail("the file of requests ends too early");
  return (int)ntohl(value);
}

static unsigned char *read_bytes(FILE *file, int size) {
  unsigned char *bytes = size > 0 && size < BUFFER_BYTES ? malloc((size_t)size) : NULL;
  if (bytes == NULL || fread(bytes, 1, (size_t)size, file) != (size_t)size) fail("the file of requests is damaged");
  return bytes;
}

static int connected(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) fail("the broker cannot be reached");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  return fd;
}

// The next request of the connection, at the end of what is to be written. 0 where there is no room for it.
static int add(Connection *each) {
  Exchange *next = &each->exchanges[each->sent % each->count];
  uint32_t correlation = htonl((uint32_t)each->sent);
  if (each->out_size + next->request_size > BUFFER_BYTES) return 0;
  memcpy(each->out + each->out_size, next->request, (size_t)next->request_size);
  memcpy(each->out + each->out_size + CORRELATION_AT, &correlation, sizeof correlation);
  each->out_size += next->request_size;
  each->sent++;
  each->in_flight++;
  return 1;
}

static void write_out(Connection *each) {
  ssize_t written = send(each->fd, each->out, (size_t)each->out_size, MSG_NOSIGNAL);
  if (written < 0 && errno != EAGAIN) fail("the broker closed a connection");
  if (written <= 0) return;
  each->out_size -= (int)written;
  memmove(each->out, each->out + written, (size_t)each->out_size);
}

static void check(Connection *each, const unsigned char *frame, int size) {
  Exchange *asked = &each->exchanges[each->answered % each->count];
  uint32_t correlation;
  memcpy(&correlation, frame, sizeof correlation);
  if (each->in_flight == 0 || ntohl(correlation) != (uint32_t)each->answered) fail("an answer to no request came");
  if (size != asked->answer_size || memcmp(frame + CORRELATION_BYTES, asked->answer + CORRELATION_BYTES, (size_t)size - CORRELATION_BYTES) != 0) {
    fprintf(stderr, "another answer than before, of %d bytes, not %d:", size, asked->answer_size);
    for (int at = 0; at < size && at < 64; at++) fprintf(stderr, " %02x", frame[at]);
    fail("");
  }
  each->answered++;
  each->in_flight--;
}

// Takes in what has arrived. How many answers that were.
static long read_in(Connection *each) {
  ssize_t got = recv(each->fd, each->in + each->in_size, (size_t)(BUFFER_BYTES - each->in_size), 0);
  long answers = 0;
  int at = 0;
  if (got == 0 || (got < 0 && errno != EAGAIN)) fail("the broker closed a connection");
  if (got < 0) return 0;
  each->in_size += (int)got;
  while (each->in_size - at >= 4) {
    uint32_t size;
    memcpy(&size, each->in + at, sizeof size);
    size = ntohl(size);
    if (size < CORRELATION_BYTES || size > BUFFER_BYTES - 4) fail("an answer of an impossible size came");
    if (each->in_size - at - 4 < (int)size) break;
    check(each, each->in + at + 4, (int)size);
    at += 4 + (int)size;
    answers++;
  }
  each->in_size -= at;
  memmove(each->in, each->in + at, (size_t)each->in_size);
  return answers;
}

int main(int argc, char **argv) {
  if (argc != 6) fail("usage: replay PORT FILE COUNT RATE DEPTH");
  int port = atoi(argv[1]), depth = atoi(argv[5]);
  long count = atol(argv[3]), sent = 0, answered = 0;
  double rate = atof(argv[4]);
  FILE *file = fopen(argv[2], "rb");
  if (file == NULL) fail("the file of requests cannot be read");
  int connections = read_int(file);
  Connection *all = calloc((size_t)connections, sizeof *all);
  struct pollfd *polled = calloc((size_t)connections, sizeof *polled);
  if (all == NULL || polled == NULL || connections < 1) fail("there is no room for the connections");
  for (int i = 0; i < connections; i++) {
    all[i].count = read_int(file);
    all[i].exchanges = calloc((size_t)all[i].count, sizeof *all[i].exchanges);
    for (int j = 0; j < all[i].count; j++) {
      Exchange *each = &all[i].exchanges[j];
      each->request_size = read_int(file);
      each->request = read_bytes(file, each->request_size);
      each->answer_size = read_int(file);
      each->answer = read_bytes(file, each->answer_size);
    }
    all[i].fd = connected(port);
  }
  fclose(file);
  double begun = now_s(), heard = begun;
  int turn = 0;
  while (answered < count) {
    long allowed = count;
    if (rate > 0) {
      double due = (now_s() - begun) * rate + 1;
      if (due < (double)allowed) allowed = (long)due;
    }
    // One request for each connection in turn, until none may send more.
    for (int idle = 0; sent < allowed && idle < connections; turn = (turn + 1) % connections) {
      if (all[turn].in_flight < depth && add(&all[turn])) {
        sent++;
        idle = 0;
      } else {
        idle++;
      }
    }
    for (int i = 0; i < connections; i++) {
      if (all[i].out_size > 0) write_out(&all[i]);
      polled[i] = (struct pollfd){.fd = all[i].fd, .events = (short)(POLLIN | (all[i].out_size > 0 ? POLLOUT : 0))};
    }
    int ready = poll(polled, (nfds_t)connections, rate > 0 && sent < count ? 1 : 100);
    if (ready < 0) fail("poll failed");
    for (int i = 0; ready > 0 && i < connections; i++) {
      if ((polled[i].revents & (POLLIN | POLLERR | POLLHUP)) == 0) continue;
      long answers = read_in(&all[i]);
      answered += answers;
      if (answers > 0) heard = now_s();
    }
    if (now_s() - heard > SILENCE_S) fail("no answer came for too long");
  }
  printf("{\"requests\": %ld, \"seconds\": %.6f, \"client_cpu_s\": %.6f}\n", count, now_s() - begun, cpu_s());
  return 0;
}
