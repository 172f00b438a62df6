/* Asks valgrind, in which this process runs, to count or not to. Outside valgrind these do nothing. */
#include <valgrind/callgrind.h>

void counting_begins(void) { CALLGRIND_ZERO_STATS; CALLGRIND_START_INSTRUMENTATION; }

void counting_ends(const char *name) { CALLGRIND_DUMP_STATS_AT(name); CALLGRIND_STOP_INSTRUMENTATION; }
