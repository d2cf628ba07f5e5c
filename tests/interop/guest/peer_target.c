/*
 * The server that `weft conform` judges: a server of rping that, unlike rdma-core's, advertises its own buffer. It
 * serves one client after the other until it is killed. After a client's error it continues with the next client.
 */
#include "peer.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	ADVERTISEMENT_OCTETS = 16,
	LARGEST_PING = 65536,
	/* The server gives up a client that sends nothing for this many times SLICE_MS. */
	PATIENCE = 500,
	SLICE_MS = 20,
};

static bool try_post(struct link *link, enum ibv_wr_opcode opcode, struct ibv_sge sge, const struct remote *remote)
{
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (remote) {
		wr.wr.rdma.remote_addr = remote->address;
		wr.wr.rdma.rkey = remote->key;
	}
	return ibv_post_send(link->id->qp, &wr, &bad) == 0;
}

/* The receive has only the size of an advertisement, because a larger Send has to fail. */
static bool try_receive(struct link *link)
{
	struct ibv_sge sge = part(&link->mail, 0, ADVERTISEMENT_OCTETS);
	struct ibv_recv_wr wr = { .wr_id = RECEIVE, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(link->id->qp, &wr, &bad) == 0;
}

/* A client that disconnects does not end the receives that wait for it. */
static bool take_completion(struct link *link, struct ibv_wc *wc)
{
	struct cm_event event;

	for (int waited = 0; waited < PATIENCE; waited++) {
		if (completion_within(link, SLICE_MS, wc))
			return wc->status == IBV_WC_SUCCESS;
		if (next_event(link->events, 0, &event) && event.type != RDMA_CM_EVENT_ESTABLISHED)
			return false;
	}
	return false;
}

/* Waits for the completion of a request or of a receive. A completion of the other kind may come first. */
static bool await(struct link *link, bool receive, unsigned *received)
{
	struct ibv_wc wc;

	while (!receive || *received == 0) {
		if (!take_completion(link, &wc))
			return false;
		if (!is_receive(&wc) && !receive)
			return true;
		if (is_receive(&wc))
			*received += wc.byte_len == ADVERTISEMENT_OCTETS;
	}
	*received -= 1;
	return true;
}

static bool await_advertisement(struct link *link, unsigned *received, struct remote *remote)
{
	uint64_t address;
	uint32_t words[2];

	if (!await(link, true, received))
		return false;
	memcpy(&address, link->mail.octets, 8);
	memcpy(words, link->mail.octets + 8, 8);
	*remote = (struct remote){ be64toh(address), ntohl(words[0]), ntohl(words[1]) };
	return remote->len <= LARGEST_PING && try_receive(link);
}

static bool say_go_ahead(struct link *link, unsigned *received)
{
	uint8_t *octets = link->mail.octets + MAIL_OCTETS;
	uint64_t address = htobe64((uintptr_t)link->window.octets);
	uint32_t words[2] = { htonl(link->window.mr->rkey), htonl((uint32_t)link->window.len) };

	memcpy(octets, &address, 8);
	memcpy(octets + 8, words, 8);
	return try_post(link, IBV_WR_SEND, part(&link->mail, MAIL_OCTETS, ADVERTISEMENT_OCTETS), NULL) &&
	       await(link, false, received);
}

static bool serve_ping(struct link *link, unsigned *received)
{
	struct remote source, sink;

	if (!await_advertisement(link, received, &source))
		return false;
	/* Exactly as large as the ping, so that the bounds of the advertised buffer are those of the memory region. */
	free_buffer(&link->window);
	link->window = make_buffer(link->id->pd, source.len ? source.len : 1,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	return try_post(link, IBV_WR_RDMA_READ, part(&link->window, 0, source.len), &source) &&
	       await(link, false, received) && say_go_ahead(link, received) &&
	       await_advertisement(link, received, &sink) &&
	       try_post(link, IBV_WR_RDMA_WRITE, part(&link->window, 0, source.len), &sink) &&
	       await(link, false, received) && say_go_ahead(link, received);
}

static void serve(const struct options *options, struct rdma_cm_id *id)
{
	uint8_t private_data[PRIVATE_DATA_MAX];
	struct rdma_conn_param param = parameters(options, private_data);
	struct link link = { .events = open_events(), .id = id };
	unsigned received = 0;

	check(rdma_migrate_id(id, link.events) == 0, "rdma_migrate_id");
	make_qp(&link);
	/* A client that has already disconnected is no failure. */
	if (try_receive(&link) && rdma_accept(id, &param) == 0)
		while (serve_ping(&link, &received))
			;
	rdma_disconnect(id);
	close_link(&link);
}

void run_target(const struct options *options)
{
	struct rdma_event_channel *events = open_events();
	struct cm_event event;

	start_listening(events, options);
	for (;;) {
		if (next_event(events, -1, &event) && event.type == RDMA_CM_EVENT_CONNECT_REQUEST)
			serve(options, event.id);
	}
}
