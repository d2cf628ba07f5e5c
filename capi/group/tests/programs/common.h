/* The common part of these tests' programs. */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft_group.h>

/* Like assert, but not disabled by NDEBUG, and with the reason of the last failure. */
#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (errno %d, %s)\n", __FILE__, __LINE__, #condition, errno,   \
                    weft_group_strerror());                                                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Checks that a call returns -1, sets errno and has this in its line. */
#define fails_with(number, words, call)                                                            \
    do {                                                                                           \
        errno = 0;                                                                                 \
        must((call) == -1);                                                                        \
        must(errno == (number));                                                                   \
        must(strstr(weft_group_strerror(), words) && !strchr(weft_group_strerror(), '\n'));        \
    } while (0)

/* As fails_with, for a call that returns NULL. */
#define null_with(number, words, call)                                                             \
    do {                                                                                           \
        errno = 0;                                                                                 \
        must((call) == NULL);                                                                      \
        must(errno == (number));                                                                   \
        must(strstr(weft_group_strerror(), words) && !strchr(weft_group_strerror(), '\n'));        \
    } while (0)

static inline void say(const char *line)
{
    puts(line);
    fflush(stdout);
}
