/* The command line. */
#include "peer.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	void (*run)(const struct options *options);
} cases[] = {
	{ "exchange", run_exchange },
	{ "private", run_private },
	{ "reject", run_reject },
	{ "stream", run_stream },
	{ "access", run_access },
	{ "many", run_many },
	{ "target", run_target },
	{ "exs", run_exs },
};

static const char usage[] =
	"usage: peer CASE -s|-c -a ADDR [-p PORT] [options], where -s listens on ADDR and -c connects to it\n"
	"  exchange   -C ROUNDS -S MAX   Sends, Writes and Reads of up to MAX octets in both directions at once\n"
	"  private    -g OCTETS -e OCTETS  gives and expects private data\n"
	"  reject     -g OCTETS -e OCTETS  the listening end rejects with private data\n"
	"  stream     -C COUNT [-x]      Writes without end; with -x this end disconnects after COUNT of them\n"
	"  access     -k KIND [-x]       with -x this end makes the bad access\n"
	"  many       -C ROUNDS -S CONNECTIONS  ping-pongs on many connections at once\n"
	"  target     a server of rping that tells its buffer, for any number of clients\n"
	"  exs        -k message|stream -C MESSAGES -S OCTETS  sends back as much as comes, by Extended Sockets\n";

void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("failed: ");
	vprintf(format, args);
	printf("\n");
	va_end(args);
	exit(EXIT_FAILURE);
}

void check(bool good, const char *what)
{
	if (!good)
		fail("%s: %m", what);
}

static void usage_error(void)
{
	fputs(usage, stderr);
	exit(2);
}

static unsigned number(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end != '\0' || value > UINT32_MAX) {
		fprintf(stderr, "peer: `%s` is no number\n", text);
		exit(2);
	}
	return (unsigned)value;
}

static struct options parse(int argc, char **argv)
{
	struct options options = {
		.name = argv[1], .address = NULL, .port = "7200", .count = 1, .size = 4096, .kind = "",
	};
	bool has_role = false;
	int option;

	optind = 2;
	while ((option = getopt(argc, argv, "sca:p:C:S:g:e:xk:")) != -1) {
		switch (option) {
		case 's':
		case 'c':
			has_role = true;
			options.listens = option == 's';
			break;
		case 'a': options.address = optarg; break;
		case 'p': options.port = optarg; break;
		case 'C': options.count = number(optarg); break;
		case 'S': options.size = number(optarg); break;
		case 'g': options.give = number(optarg); break;
		case 'e': options.expect = number(optarg); break;
		case 'x': options.acts = true; break;
		case 'k': options.kind = optarg; break;
		default: usage_error();
		}
	}
	if (!has_role || optind != argc || !options.address)
		usage_error();
	if (options.give > PRIVATE_DATA_MAX || options.expect > PRIVATE_DATA_MAX)
		usage_error();
	return options;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 3)
		usage_error();
	struct options options = parse(argc, argv);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, options.name) == 0) {
			cases[i].run(&options);
			printf("ok\n");
			return EXIT_SUCCESS;
		}
	}
	usage_error();
}
