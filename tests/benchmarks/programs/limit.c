/* What the machine can do with nothing in the way: at each instant COUNT processes are started by
   posix_spawn, one after the other, on one thread. What has ended is reaped between the starts; at
   most 64 are alive.

     limit sh|exec COUNT TICK FILE LABEL INSTANT_NS...

   With sh each is the shell that is given TICK's command line, as a cron daemon does it; with exec
   it is TICK itself. The ids are LABEL.0, LABEL.1 and so on.                                     */
#define _GNU_SOURCE
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define ALIVE 64

extern char **environ;

static char ***commands(int in_shell, int count, char *tick, char *file, char *label)
{
    char ***all = calloc(count, sizeof *all);
    for (int i = 0; i < count; i++) {
        char *line, *id;
        if (asprintf(&id, "%s.%d", label, i) < 0 ||
            asprintf(&line, "%s %s %s;", tick, file, id) < 0)
            exit(1);
        char *shell[] = {"/bin/sh", "-c", line, NULL}, *plain[] = {tick, file, id, NULL};
        all[i] = calloc(4, sizeof **all);
        memcpy(all[i], in_shell ? shell : plain, sizeof shell);
    }
    return all;
}

static void burst(char ***all, int count)
{
    int alive = 0, error;
    for (int i = 0; i < count; i++) {
        pid_t pid;
        if ((error = posix_spawn(&pid, all[i][0], NULL, NULL, all[i], environ))) {
            fprintf(stderr, "%s: %s\n", all[i][0], strerror(error));
            exit(1);
        }
        alive++;
        while (alive > 0 && waitpid(-1, NULL, alive >= ALIVE ? 0 : WNOHANG) > 0)
            alive--;
    }
    while (alive > 0 && waitpid(-1, NULL, 0) > 0)
        alive--;
}

int main(int argc, char **argv)
{
    if (argc < 7)
        return 2;
    int count = atoi(argv[2]);
    char ***all = commands(!strcmp(argv[1], "sh"), count, argv[3], argv[4], argv[5]);
    for (int i = 6; i < argc; i++) {
        long long due = atoll(argv[i]);
        struct timespec at = {due / 1000000000, due % 1000000000};
        while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL) == EINTR)
            ;
        burst(all, count);
    }
    return 0;
}
