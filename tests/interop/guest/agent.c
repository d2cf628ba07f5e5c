/*
 * The guest's end of the control channel: starts any number of commands for the host and sends back their output.
 *
 *   host:   start ID COMMAND   kill ID
 *   guest:  ready NAME BUILD   ID:LINE   ID=STATUS
 *
 * It is process 1, so it also reaps processes that have lost their parents.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 64, LINE = 8192, PAUSE_MS = 20 };

struct lines {
	char octets[LINE];
	size_t len;
};

struct job {
	unsigned long id;
	pid_t pid;
	/* -1 when all of the output has come. */
	int output;
	/* -1 while it runs. */
	int status;
	struct lines lines;
};

static struct job *jobs[JOBS];
static int port;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void say(const char *format, ...)
{
	static char text[LINE + 64];
	va_list arguments;
	va_start(arguments, format);
	int len = vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	for (int done = 0; done < len;) {
		ssize_t written = write(port, text + done, (size_t)(len - done));
		if (written < 0 && errno != EINTR && errno != EAGAIN)
			return; /* The host has not opened the other end. */
		done += written > 0 ? (int)written : 0;
	}
}

static void start(unsigned long id, const char *command)
{
	int place = 0, ends[2];
	while (place < JOBS && jobs[place] != NULL)
		place++;
	struct job *job = place < JOBS ? calloc(1, sizeof *job) : NULL;
	if (job == NULL || pipe2(ends, O_CLOEXEC) != 0) {
		say("%lu:no room for another command\n%lu=1\n", id, id);
		free(job);
		return;
	}
	*job = (struct job){ .id = id, .output = ends[0], .status = -1, .pid = fork() };
	if (job->pid == 0) {
		int nothing = open("/dev/null", O_RDONLY);
		/* The command has its own session, so that the agent can end all of the command's processes. */
		setsid();
		dup2(nothing, 0);
		dup2(ends[1], 1);
		dup2(ends[1], 2);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	if (job->pid < 0)
		job->status = 1;
	jobs[place] = job;
}

static void end(const struct job *job)
{
	/* A child that has no session yet has no children either. */
	if (job->pid > 0 && job->status < 0 && kill(-job->pid, SIGKILL) != 0)
		kill(job->pid, SIGKILL);
}

static void handle(const char *line)
{
	unsigned long id;
	int command = 0;
	if (sscanf(line, "start %lu %n", &id, &command) == 1 && command > 0) {
		start(id, line + command);
	} else if (sscanf(line, "kill %lu", &id) == 1) {
		for (int place = 0; place < JOBS; place++)
			if (jobs[place] != NULL && jobs[place]->id == id)
				end(jobs[place]);
	} else {
		fprintf(stderr, "agent: unknown request: %s\n", line);
	}
}

/*
 * Reads once and handles the whole lines, of a job or, without one, of the host. A line that is too long becomes two.
 * Returns the result of read.
 */
static ssize_t take(int fd, struct lines *lines, const struct job *job)
{
	ssize_t taken = read(fd, lines->octets + lines->len, sizeof lines->octets - 1 - lines->len);
	if (taken > 0)
		lines->len += (size_t)taken;
	char *begin = lines->octets, *end = lines->octets + lines->len;
	for (char *octet = begin; octet < end; octet++) {
		if (*octet != '\n')
			continue;
		*octet = '\0';
		if (job != NULL)
			say("%lu:%s\n", job->id, begin);
		else
			handle(begin);
		begin = octet + 1;
	}
	int is_full = begin == lines->octets && lines->len == sizeof lines->octets - 1;
	if (job != NULL && begin < end && (taken == 0 || is_full)) {
		*end = '\0';
		say("%lu:%s\n", job->id, begin);
		begin = end;
	}
	lines->len = (size_t)(end - begin);
	memmove(lines->octets, begin, lines->len);
	return taken;
}

static void bury(void)
{
	int how;
	for (pid_t pid; (pid = waitpid(-1, &how, WNOHANG)) > 0;)
		for (int place = 0; place < JOBS; place++)
			if (jobs[place] != NULL && jobs[place]->pid == pid)
				jobs[place]->status = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
	for (int place = 0; place < JOBS; place++) {
		struct job *job = jobs[place];
		if (job != NULL && job->status >= 0 && job->output < 0) {
			say("%lu=%d\n", job->id, job->status);
			free(job);
			jobs[place] = NULL;
		}
	}
}

static void serve(struct lines *requests)
{
	struct pollfd fds[JOBS + 1];
	fds[JOBS] = (struct pollfd){ .fd = port, .events = POLLIN };
	for (int place = 0; place < JOBS; place++)
		fds[place] = (struct pollfd){ .fd = jobs[place] != NULL ? jobs[place]->output : -1, .events = POLLIN };
	poll(fds, JOBS + 1, PAUSE_MS);
	for (int place = 0; place < JOBS; place++) {
		struct job *job = jobs[place];
		if (job != NULL && job->output >= 0 && fds[place].revents != 0 && take(job->output, &job->lines, job) == 0) {
			close(job->output);
			job->output = -1;
		}
	}
	/* If no host has the other end, read always returns the end of the file. */
	if (fds[JOBS].revents != 0 && take(port, requests, NULL) <= 0)
		usleep(PAUSE_MS * 1000);
	bury();
}

int main(int count, char **arguments)
{
	static struct lines requests;
	if (count != 3 || (port = open(arguments[1], O_RDWR | O_CLOEXEC)) < 0)
		die("agent: the control channel");
	/* The first line feed ends a line that an earlier boot of this guest may have left unfinished. */
	say("\nready %s\n", arguments[2]);
	for (;;)
		serve(&requests);
}
