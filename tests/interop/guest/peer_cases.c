/* The cases with one connection: private data, rejection, disconnect in mid-transfer, bad accesses. */
#include "peer.h"

#include <stdio.h>
#include <string.h>

enum {
	WINDOW_OCTETS = 1 << 20,
	WRITE_OCTETS = 1 << 16,
	WRITES_AT_ONCE = 8,
	/* A request that has not completed this long after the end of the connection never completes. */
	QUIET_MS = 3000,
};

/* private: each end gives and expects private data. Then a message in each direction tests the connection. */
void run_private(const struct options *options)
{
	struct link link;

	open_link(&link, options);
	expect_private_data(link.private_data, link.private_len, options);
	greet(&link, options, WRITE_OCTETS);
	end_link(&link, options);
}

/* reject: the listening end rejects the connection with private data that the connecting end expects. */
void run_reject(const struct options *options)
{
	uint8_t private_data[PRIVATE_DATA_MAX];
	struct rdma_conn_param param = parameters(options, private_data);
	struct link link = { .events = open_events() };
	struct cm_event event;

	if (options->listens) {
		link.listener = start_listening(link.events, options);
		wait_event(link.events, RDMA_CM_EVENT_CONNECT_REQUEST, &event);
		check(rdma_reject(event.id, private_data, param.private_data_len) == 0, "rdma_reject");
		check(rdma_destroy_id(event.id) == 0, "rdma_destroy_id");
	} else {
		link.id = start_connecting(link.events, options);
		make_qp(&link);
		param.private_data_len = 0;
		check(rdma_connect(link.id, &param) == 0, "rdma_connect");
		wait_event(link.events, RDMA_CM_EVENT_REJECTED, &event);
		expect_private_data(event.private_data, event.private_len, options);
	}
	close_link(&link);
}

/* True if the connection's end may give a request this status. siw has other statuses for the request in progress. */
static bool is_cut_off(const struct ibv_wc *wc)
{
	enum ibv_wc_status other = is_receive(wc) ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_QP_OP_ERR;

	return wc->status == IBV_WC_WR_FLUSH_ERR || wc->status == other;
}

/*
 * Waits for the end of the connection, takes the remaining completions, and prints how the requests ended. Returns how
 * many were flushed. siw keeps some requests in its queues until the application moves the queue pair to the error
 * state. It never completes a few.
 */
static unsigned drain(struct link *link, unsigned posted)
{
	unsigned good = 0, flushed = 0, interrupted = 0;
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;

	wait_disconnected(link);
	check(ibv_modify_qp(link->id->qp, &error, IBV_QP_STATE) == 0, "ibv_modify_qp");
	while (good + flushed + interrupted < posted && completion_within(link, QUIET_MS, &wc)) {
		if (wc.status != IBV_WC_SUCCESS)
			print_completion(&wc);
		good += wc.status == IBV_WC_SUCCESS;
		flushed += wc.status == IBV_WC_WR_FLUSH_ERR;
		interrupted += wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR;
		if (wc.status != IBV_WC_SUCCESS && !is_cut_off(&wc))
			fail("a request ended with: %s", ibv_wc_status_str(wc.status));
	}
	printf("drained: %u done, %u interrupted, %u flushed, %u forgotten\n", good, interrupted, flushed,
	       posted - good - flushed - interrupted);
	return flushed;
}

/* Posts Writes to successive places of the window, up to WRITES_AT_ONCE. False: the queue pair takes no more. */
static bool post_writes(struct link *link, unsigned *posted, unsigned *next)
{
	for (; *posted < MAIL_SLOTS - 1 + WRITES_AT_ONCE; (*posted)++) {
		size_t place = (*next)++ * WRITE_OCTETS % WINDOW_OCTETS;
		struct ibv_sge sge = part(&link->source, place, WRITE_OCTETS);
		struct remote remote = link->peer_window;

		remote.address += place;
		if (!post_if_open(link, *next, IBV_WR_RDMA_WRITE, sge, &remote)) {
			printf("ibv_post_send: %m\n");
			return false;
		}
	}
	return true;
}

/* stream: both ends send Writes without end. The end that acts disconnects after the given number of Writes. */
void run_stream(const struct options *options)
{
	unsigned posted = MAIL_SLOTS - 1, written = 0, next = 0;
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	struct link link;

	open_link(&link, options);
	for (unsigned slot = 1; slot < MAIL_SLOTS; slot++)
		post_receive(&link, slot, part(&link.mail, slot * MAIL_OCTETS, MAIL_OCTETS));
	greet(&link, options, WINDOW_OCTETS);
	while (!(options->acts && written >= options->count) && post_writes(&link, &posted, &next)) {
		next_completion(&link, &wc);
		posted--;
		if (wc.status != IBV_WC_SUCCESS)
			break;
		if (++written == 16)
			printf("streaming\n");
	}
	printf("written: %u, then: %s\n", written, ibv_wc_status_str(wc.status));
	if (wc.status != IBV_WC_SUCCESS && !is_cut_off(&wc))
		fail("a request ended with: %s", ibv_wc_status_str(wc.status));
	if (options->acts)
		check(rdma_disconnect(link.id) == 0, "rdma_disconnect");
	if (drain(&link, posted) == 0)
		fail("nothing was flushed");
	close_link(&link);
}

/* Posts the bad request of the kind. */
static void attack(struct link *link, const char *kind)
{
	struct remote window = link->peer_window, source = link->peer_source;
	struct ibv_sge sge = part(&link->source, 0, 64), sink = part(&link->window, 0, 64);

	if (strcmp(kind, "write-stag") == 0) {
		window.key ^= 0x5A5A5A00;
		post(link, 1, IBV_WR_RDMA_WRITE, sge, &window);
	} else if (strcmp(kind, "write-bounds") == 0) {
		window.address += window.len - 8;
		post(link, 1, IBV_WR_RDMA_WRITE, sge, &window);
	} else if (strcmp(kind, "write-right") == 0) {
		post(link, 1, IBV_WR_RDMA_WRITE, sge, &source);
	} else if (strcmp(kind, "read-stag") == 0) {
		source.key ^= 0x5A5A5A00;
		post(link, 1, IBV_WR_RDMA_READ, sink, &source);
	} else if (strcmp(kind, "read-bounds") == 0) {
		source.address += source.len - 8;
		post(link, 1, IBV_WR_RDMA_READ, sink, &source);
	} else if (strcmp(kind, "read-right") == 0) {
		post(link, 1, IBV_WR_RDMA_READ, sink, &window);
	} else if (strcmp(kind, "send-long") == 0 || strcmp(kind, "send-none") == 0) {
		post(link, 1, IBV_WR_SEND, sge, NULL);
	} else {
		fail("there is no access `%s`", kind);
	}
}

/*
 * access: the end that acts makes one bad access. The other end has posted a receive of 16 octets, but not in
 * `send-none`. Both ends see the end of the connection and print it.
 */
void run_access(const struct options *options)
{
	bool is_unasked = strcmp(options->kind, "send-none") == 0;
	unsigned posted = is_unasked ? 0 : 1;
	struct link link;

	open_link(&link, options);
	if (posted)
		post_receive(&link, 0, part(&link.mail, MAIL_OCTETS, 16));
	greet(&link, options, 4096);
	if (options->acts) {
		attack(&link, options->kind);
		posted++;
	}
	drain(&link, posted);
	close_link(&link);
}
