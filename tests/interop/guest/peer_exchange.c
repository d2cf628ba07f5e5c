/*
 * exchange: both ends send, write and read messages of all sizes at the same time, and check every octet that they get.
 *
 * A round is all requests and then `done`, a Send. When `done` arrives, all Writes have been placed. An end sends
 * `ready` when it has checked everything and has posted the next round's receives. It starts the next round when it has
 * sent and received `ready`.
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t all_sizes[] = { 1, 23, 1000, 1448, 4096, 16384, 65535, 65536, 100000, 131072 };

enum { SIZES = sizeof(all_sizes) / sizeof(all_sizes[0]), SIGNAL_OCTETS = 4 };

struct exchange {
	struct link link;
	/* How many sizes are in use, from the first one on; total is their sum in octets. */
	unsigned sizes;
	uint32_t total;
	/* The sources of Sends, the sources of Writes, the sink of Reads, and the buffers of receives. */
	struct buffer sends, writes, sink, inbox;
	unsigned received, completed;
};

static uint32_t place(unsigned index)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < index; i++)
		sum += all_sizes[i];
	return sum;
}

/* Posts a receive of the exact size for each Send, and one each for `done` and `ready`. */
static void post_receives(struct exchange *x)
{
	for (unsigned i = 0; i < x->sizes; i++)
		post_receive(&x->link, i, part(&x->inbox, place(i), all_sizes[i]));
	for (unsigned slot = 1; slot <= 2; slot++)
		post_receive(&x->link, x->sizes + slot - 1, part(&x->link.mail, slot * MAIL_OCTETS, MAIL_OCTETS));
}

static void prepare(struct exchange *x, unsigned round)
{
	memset(x->sink.octets, 0, x->total);
	for (unsigned i = 0; i < x->sizes; i++) {
		fill(x->sends.octets + place(i), all_sizes[i], seed(SIDE_GUEST, KIND_SEND, round, i), 0);
		fill(x->writes.octets + place(i), all_sizes[i], seed(SIDE_GUEST, KIND_WRITE, round, i), 0);
	}
}

static void post_signal(struct exchange *x, const char *text)
{
	size_t at = MAIL_SLOTS * MAIL_OCTETS;

	memcpy(x->link.mail.octets + at, text, SIGNAL_OCTETS);
	post(&x->link, 0, IBV_WR_SEND, part(&x->link.mail, at, SIGNAL_OCTETS), NULL);
}

static void post_all(struct exchange *x)
{
	for (unsigned i = 0; i < x->sizes; i++) {
		struct remote window = x->link.peer_window, source = x->link.peer_source;

		window.address += place(i);
		source.address += place(i);
		post(&x->link, i, IBV_WR_SEND, part(&x->sends, place(i), all_sizes[i]), NULL);
		post(&x->link, i, IBV_WR_RDMA_WRITE, part(&x->writes, place(i), all_sizes[i]), &window);
		post(&x->link, i, IBV_WR_RDMA_READ, part(&x->sink, place(i), all_sizes[i]), &source);
	}
	post_signal(x, "done");
}

/* Waits until there were this many completions since the beginning, and checks the lengths of messages. */
static void wait_for(struct exchange *x, unsigned completed, unsigned received)
{
	struct ibv_wc wc;

	while (x->completed < completed || x->received < received) {
		next_completion(&x->link, &wc);
		if (wc.status != IBV_WC_SUCCESS)
			fail("%s %llu: %s", is_receive(&wc) ? "receive" : "request",
			     (unsigned long long)(wc.wr_id & ~RECEIVE), ibv_wc_status_str(wc.status));
		if (!is_receive(&wc)) {
			x->completed++;
			continue;
		}
		unsigned index = x->received++ % (x->sizes + 2);
		uint32_t wanted = index < x->sizes ? all_sizes[index] : SIGNAL_OCTETS;

		if ((wc.wr_id & ~RECEIVE) != index || wc.byte_len != wanted)
			fail("receive %llu of %u octets where %u of %u was due",
			     (unsigned long long)(wc.wr_id & ~RECEIVE), wc.byte_len, index, wanted);
	}
}

static void check_round(struct exchange *x, unsigned round)
{
	for (unsigned i = 0; i < x->sizes; i++) {
		uint32_t len = all_sizes[i];

		expect(x->inbox.octets + place(i), len, seed(SIDE_HOST, KIND_SEND, round, i), 0, "received");
		expect(x->link.window.octets + place(i), len, seed(SIDE_HOST, KIND_WRITE, round, i), 0, "written");
	}
	expect(x->sink.octets, x->total, seed(SIDE_HOST, KIND_READ, 0, 0), 0, "read");
	expect(x->link.source.octets, x->total, seed(SIDE_GUEST, KIND_READ, 0, 0), 0, "the source");
	if (memcmp(x->link.mail.octets + MAIL_OCTETS, "done", SIGNAL_OCTETS) != 0)
		fail("the last message of round %u is not `done`", round);
}

static void run_round(struct exchange *x, unsigned round)
{
	unsigned requests = 3 * x->sizes + 2, receives = x->sizes + 2;

	prepare(x, round);
	post_all(x);
	wait_for(x, round * requests + requests - 1, round * receives + receives - 1);
	check_round(x, round);
	memset(x->inbox.octets, 0, x->total);
	memset(x->link.window.octets, 0, x->total);
	post_receives(x);
	post_signal(x, "redy");
	wait_for(x, (round + 1) * requests, (round + 1) * receives);
	printf("round %u\n", round);
}

void run_exchange(const struct options *options)
{
	struct exchange x = { .sizes = 0 };

	while (x.sizes < SIZES && all_sizes[x.sizes] <= options->size)
		x.sizes++;
	x.total = place(x.sizes);
	if (x.total == 0)
		fail("no message is that small");
	open_link(&x.link, options);
	struct ibv_pd *pd = x.link.id->pd;

	x.sends = make_buffer(pd, x.total, IBV_ACCESS_LOCAL_WRITE);
	x.writes = make_buffer(pd, x.total, IBV_ACCESS_LOCAL_WRITE);
	x.sink = make_buffer(pd, x.total, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	x.inbox = make_buffer(pd, x.total, IBV_ACCESS_LOCAL_WRITE);
	post_receives(&x);
	greet(&x.link, options, x.total);
	for (unsigned round = 0; round < options->count; round++)
		run_round(&x, round);
	end_link(&x.link, options);
	free_buffer(&x.sends);
	free_buffer(&x.writes);
	free_buffer(&x.sink);
	free_buffer(&x.inbox);
}
