// Replaces itself, by the function that the first argument names, with itself again, and then shows what it was given.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int show(int count, char **arguments) {
    for (int at = 2; at < count; at++) printf("%s ", arguments[at]);
    const char *own = getenv("A"), *sockets = getenv("WEFT_SOCKETS"), *preload = getenv("LD_PRELOAD");
    printf("A=%s", own ? own : "");
    if (!getenv("PLAIN")) printf(" %s %s", sockets ? sockets : "", preload ? strrchr(preload, '/') : "");
    printf("\n");
    return 0;
}

static int wait_for(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0 ? 0 : 9;
}

int main(int count, char **arguments) {
    char *self = arguments[0], *how = arguments[1];
    if (!strcmp(how, "show")) return show(count, arguments);
    char *variables[] = {"A=1", getenv("PLAIN") ? "PLAIN=1" : NULL, NULL};
    char *list[] = {self, "show", how, "b", "c", "d", "e", "f", "g", NULL};
    char folder[4096];
    strcpy(folder, self);
    char *name = strrchr(folder, '/') + 1;
    name[-1] = 0;
    int is_plain = getenv("PLAIN") != NULL;
    clearenv();
    if (is_plain) setenv("PLAIN", "1", 1);
    char path[5000];
    snprintf(path, sizeof path, "/nowhere:/etc/passwd:/etc:%s", folder);
    setenv("PATH", path, 1);
    pid_t child = -1;
    if (!strcmp(how, "execve")) execve(self, list, variables);
    if (!strcmp(how, "execv")) execv(self, list);
    if (!strcmp(how, "execvp")) execvp(name, list);
    if (!strcmp(how, "execvpe")) execvpe(name, list, variables);
    if (!strcmp(how, "execl")) execl(self, self, "show", how, "b", "c", "d", "e", "f", "g", (char *)0);
    if (!strcmp(how, "execl short")) execl(self, self, "show", (char *)0);
    if (!strcmp(how, "execlp")) execlp(name, self, "show", how, "b", "c", "d", "e", "f", "g", (char *)0);
    if (!strcmp(how, "execle")) execle(self, self, "show", how, "b", "c", "d", "e", "f", "g", (char *)0, variables);
    if (!strcmp(how, "fexecve")) fexecve(open(self, O_RDONLY), list, variables);
    if (!strcmp(how, "execveat")) execveat(open(folder, O_RDONLY), name, list, variables, 0);
    if (!strcmp(how, "posix_spawn")) return posix_spawn(&child, self, NULL, NULL, list, variables) ? 8 : wait_for(child);
    if (!strcmp(how, "posix_spawnp")) return posix_spawnp(&child, name, NULL, NULL, list, variables) ? 8 : wait_for(child);
    if (!strcmp(how, "vfork")) {
        if ((child = vfork()) == 0) {
            execve(self, list, variables);
            _exit(7);
        }
        return wait_for(child);
    }
    if (!strcmp(how, "script")) {
        snprintf(path, sizeof path, "%s/script-%d", folder, getpid());
        FILE *script = fopen(path, "w");
        fprintf(script, "rm \"$0\"; echo \"$#\" \"$1\" \"$2\"\n");
        fclose(script);
        chmod(path, 0755);
        execlp(strrchr(path, '/') + 1, "any name", "one", "two words", (char *)0);
    }
    if (!strcmp(how, "nothing")) execvp("no-such-program", list);
    if (!strcmp(how, "denied")) execvp("passwd", list);
    printf("%s: %s\n", how, strerror(errno));
    return 0;
}
