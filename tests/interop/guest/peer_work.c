/* Memory, work requests and completions, and the greeting in which each end advertises its memory. */
#include "peer.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct buffer make_buffer(struct ibv_pd *pd, size_t len, int access)
{
	struct buffer buffer = { .octets = calloc(1, len), .len = len };

	check(buffer.octets, "calloc");
	buffer.mr = ibv_reg_mr(pd, buffer.octets, len, access);
	check(buffer.mr, "ibv_reg_mr");
	return buffer;
}

void free_buffer(struct buffer *buffer)
{
	if (buffer->mr)
		check(ibv_dereg_mr(buffer->mr) == 0, "ibv_dereg_mr");
	free(buffer->octets);
	*buffer = (struct buffer){ 0 };
}

struct ibv_sge part(const struct buffer *buffer, size_t offset, uint32_t len)
{
	return (struct ibv_sge){ (uintptr_t)buffer->octets + offset, len, buffer->mr->lkey };
}

void post_receive(struct link *link, uint64_t wr_id, struct ibv_sge sge)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id | RECEIVE, .sg_list = &sge, .num_sge = 1 }, *bad;

	errno = ibv_post_recv(link->id->qp, &wr, &bad);
	check(errno == 0, "ibv_post_recv");
}

/*
 * Posts a request. Returns false if the queue pair does not take it any more. A request that is large enough gets two
 * scatter/gather elements, except a Read, for which siw supports only one.
 */
bool post_if_open(struct link *link, uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge sge,
	  const struct remote *remote)
{
	struct ibv_sge sges[2] = { sge, sge };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = sges,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (opcode != IBV_WR_RDMA_READ && sge.length > 1000) {
		sges[0].length = sge.length / 3;
		sges[1].addr += sges[0].length;
		sges[1].length -= sges[0].length;
		wr.num_sge = 2;
	}
	if (remote) {
		wr.wr.rdma.remote_addr = remote->address;
		wr.wr.rdma.rkey = remote->key;
	}
	errno = ibv_post_send(link->id->qp, &wr, &bad);
	return errno == 0;
}

void post(struct link *link, uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge sge,
	  const struct remote *remote)
{
	check(post_if_open(link, wr_id, opcode, sge, remote), "ibv_post_send");
}

bool completion_within(struct link *link, int timeout_ms, struct ibv_wc *wc)
{
	struct pollfd fd = { .fd = link->completions->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	for (;;) {
		/* Requests the notification before it polls, so that it misses no completion between the two. */
		check(ibv_req_notify_cq(link->cq, 0) == 0, "ibv_req_notify_cq");
		int taken = ibv_poll_cq(link->cq, 1, wc);

		check(taken >= 0, "ibv_poll_cq");
		if (taken == 1)
			return true;
		if (poll(&fd, 1, timeout_ms) <= 0)
			return false;
		while (ibv_get_cq_event(link->completions, &cq, &context) == 0)
			ibv_ack_cq_events(cq, 1);
	}
}

void next_completion(struct link *link, struct ibv_wc *wc)
{
	if (!completion_within(link, TIMEOUT_MS, wc))
		fail("no completion in time");
}

/* A failed completion has no valid opcode, so the identifier says it. */
bool is_receive(const struct ibv_wc *wc)
{
	return wc->wr_id & RECEIVE;
}

void print_completion(const struct ibv_wc *wc)
{
	printf("completion: %s %llu: %s\n", is_receive(wc) ? "receive" : "request",
	       (unsigned long long)(wc->wr_id & ~RECEIVE), ibv_wc_status_str(wc->status));
}

static void put_remote(uint8_t *octets, const struct buffer *buffer)
{
	uint64_t address = htobe64((uintptr_t)buffer->octets);
	uint32_t words[2] = { htonl(buffer->mr->rkey), htonl((uint32_t)buffer->len) };

	memcpy(octets, &address, 8);
	memcpy(octets + 8, words, 8);
}

static struct remote take_remote(const uint8_t *octets)
{
	uint64_t address;
	uint32_t words[2];

	memcpy(&address, octets, 8);
	memcpy(words, octets + 8, 8);
	return (struct remote){ be64toh(address), ntohl(words[0]), ntohl(words[1]) };
}

/* Sends the greeting unsignaled, so that the next completion is that of a receive. */
static void send_greeting(struct link *link)
{
	size_t place = MAIL_SLOTS * MAIL_OCTETS;
	struct ibv_sge sge = part(&link->mail, place, GREETING_OCTETS);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	put_remote(link->mail.octets + place, &link->window);
	put_remote(link->mail.octets + place + 16, &link->source);
	errno = ibv_post_send(link->id->qp, &wr, &bad);
	check(errno == 0, "ibv_post_send of the greeting");
}

/*
 * Makes a window that the other end may only write to and a source that it may only read, of len octets each. The two
 * ends then exchange their greetings. The connecting end sends first, as MPA requires.
 */
void greet(struct link *link, const struct options *options, size_t len)
{
	struct ibv_wc wc;

	link->window = make_buffer(link->id->pd, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	link->source = make_buffer(link->id->pd, len, IBV_ACCESS_REMOTE_READ);
	fill(link->source.octets, len, seed(SIDE_GUEST, KIND_READ, 0, 0), 0);
	if (!options->listens)
		send_greeting(link);
	next_completion(link, &wc);
	if (wc.status != IBV_WC_SUCCESS || !is_receive(&wc) || wc.byte_len != GREETING_OCTETS)
		fail("no greeting but request %llx, %s, %u octets", (unsigned long long)wc.wr_id,
		     ibv_wc_status_str(wc.status), wc.byte_len);
	link->peer_window = take_remote(link->mail.octets);
	link->peer_source = take_remote(link->mail.octets + 16);
	if (options->listens)
		send_greeting(link);
	printf("greeted\n");
}
