/* A user database that hangs, for a program that is started with this library preloaded.

   HANGS names the function that waits; it goes on when the pipe GATE is opened to write. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void hang(const char *function)
{
    if (strcmp(getenv("HANGS"), function) == 0)
        close(open(getenv("GATE"), O_RDONLY));
}

int getgrouplist(const char *user, gid_t group, gid_t *groups, int *ngroups)
{
    int (*real)(const char *, gid_t, gid_t *, int *);

    *(void **)&real = dlsym(RTLD_NEXT, "getgrouplist");
    hang("getgrouplist");
    return real(user, group, groups, ngroups);
}

int getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size,
               struct passwd **result)
{
    int (*real)(const char *, struct passwd *, char *, size_t, struct passwd **);

    *(void **)&real = dlsym(RTLD_NEXT, "getpwnam_r");
    hang("getpwnam_r");
    return real(name, entry, buffer, size, result);
}
