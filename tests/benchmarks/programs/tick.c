/* The job that every daemon runs here: it reads the wall clock first thing, appends a line to a
   file, and may stay for a while.

     tick FILE ID [SECONDS]                                                                      */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (argc < 3)
        return 2;
    char line[128];
    int size = snprintf(line, sizeof line, "%s %lld%09ld\n", argv[2], (long long)now.tv_sec,
                        now.tv_nsec);
    int file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 || write(file, line, size) != size)
        return 3;
    close(file);
    if (argc > 3) {
        struct timespec stay = {atol(argv[3]), 0};
        nanosleep(&stay, NULL);
    }
    return 0;
}
