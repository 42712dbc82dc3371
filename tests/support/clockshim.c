/* A library to preload that moves the wall clock of the processes that load it.
 *
 * CLOCKSHIM names a file of eight bytes: nanoseconds, signed, to add to CLOCK_REALTIME. It is
 * mapped, so what a test writes there is a step of the clock, seen by the next reading. All other
 * clocks, and whatever the kernel itself does with CLOCK_REALTIME, stay as they are.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static _Atomic int64_t none;
static _Atomic int64_t *offset = &none;

__attribute__((constructor)) static void map_offset(void)
{
	const char *name = getenv("CLOCKSHIM");
	if (name == NULL)
		return;
	int file = open(name, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		_exit(127);
	void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
	close(file);
	if (mapped == MAP_FAILED)
		_exit(127);
	offset = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *reading)
{
	if (syscall(SYS_clock_gettime, clock, reading) != 0)
		return -1;
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
		int64_t nanoseconds = reading->tv_sec * SECOND + reading->tv_nsec + *offset;
		reading->tv_sec = nanoseconds / SECOND;
		reading->tv_nsec = nanoseconds % SECOND;
	}
	return 0;
}

int gettimeofday(struct timeval *restrict reading, void *restrict zone)
{
	struct timespec now;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	reading->tv_sec = now.tv_sec;
	reading->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *reading)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (reading != NULL)
		*reading = now.tv_sec;
	return now.tv_sec;
}
