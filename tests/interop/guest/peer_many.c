/*
 * many: ping-pongs on many connections at once. All connections are established before the first ping, and none is
 * closed before the last pong of all.
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>

enum { MANY_MAX = 256, PING_OCTETS = 2000, REQUESTS = 4 };

struct pinger {
	struct link link;
	struct buffer inbox, outbox;
	unsigned received;
};

struct crowd {
	const struct options *options;
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener;
	struct pinger *pingers;
	unsigned size, begun, established, disconnected;
	/* All connections share a completion queue, because libsiw makes no more than some 20 in a process. */
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
};

/* Makes a connection's queue pair and posts the receive for its first message. */
static void begin(struct crowd *crowd, struct rdma_cm_id *id)
{
	if (crowd->begun == crowd->size)
		fail("one connection too many");
	struct pinger *pinger = &crowd->pingers[crowd->begun++];

	pinger->link.events = crowd->events;
	pinger->link.id = id;
	if (!crowd->cq) {
		make_cq(&pinger->link, crowd->size * REQUESTS);
		crowd->completions = pinger->link.completions;
		crowd->cq = pinger->link.cq;
	}
	pinger->link.completions = crowd->completions;
	pinger->link.cq = crowd->cq;
	make_qp(&pinger->link);
	pinger->inbox = make_buffer(id->pd, PING_OCTETS, IBV_ACCESS_LOCAL_WRITE);
	pinger->outbox = make_buffer(id->pd, PING_OCTETS, IBV_ACCESS_LOCAL_WRITE);
	post_receive(&pinger->link, 0, part(&pinger->inbox, 0, PING_OCTETS));
}

static void handle_event(struct crowd *crowd)
{
	uint8_t nothing[PRIVATE_DATA_MAX];
	struct rdma_conn_param param = parameters(crowd->options, nothing);
	struct cm_event event;

	if (!next_event(crowd->events, TIMEOUT_MS, &event))
		fail("no event in time: %u begun, %u established", crowd->begun, crowd->established);
	switch (event.type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		begin(crowd, event.id);
		check(rdma_accept(event.id, &param) == 0, "rdma_accept");
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		crowd->established++;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		crowd->disconnected++;
		break;
	default:
		fail("an unexpected event");
	}
}

/* Starts all connections at once, without waiting for any. */
static void connect_all(struct crowd *crowd)
{
	uint8_t nothing[PRIVATE_DATA_MAX];
	struct rdma_conn_param param = parameters(crowd->options, nothing);

	for (unsigned i = 0; i < crowd->size; i++)
		begin(crowd, start_connecting(crowd->events, crowd->options));
	for (unsigned i = 0; i < crowd->size; i++)
		check(rdma_connect(crowd->pingers[i].link.id, &param) == 0, "rdma_connect");
}

/* The content depends only on the round and the sender, because the other end does not know a connection's index. */
static void send_message(struct pinger *pinger, unsigned round)
{
	fill(pinger->outbox.octets, PING_OCTETS, seed(SIDE_GUEST, KIND_SEND, round, 0), 0);
	post(&pinger->link, round, IBV_WR_SEND, part(&pinger->outbox, 0, PING_OCTETS), NULL);
}

static struct pinger *find(struct crowd *crowd, uint32_t number)
{
	for (unsigned i = 0; i < crowd->size; i++) {
		if (crowd->pingers[i].link.id->qp->qp_num == number)
			return &crowd->pingers[i];
	}
	fail("there is no queue pair %u", number);
}

/* Takes the next message of any connection, checks it and posts a new receive. */
static struct pinger *take_message(struct crowd *crowd)
{
	struct link *any = &crowd->pingers[0].link;
	struct ibv_wc wc;

	do {
		next_completion(any, &wc);
		if (wc.status != IBV_WC_SUCCESS)
			fail("a request ended with: %s", ibv_wc_status_str(wc.status));
	} while (!is_receive(&wc));
	struct pinger *pinger = find(crowd, wc.qp_num);

	if (wc.byte_len != PING_OCTETS)
		fail("a message of %u octets", wc.byte_len);
	expect(pinger->inbox.octets, PING_OCTETS, seed(SIDE_HOST, KIND_SEND, pinger->received, 0), 0, "message");
	pinger->received++;
	post_receive(&pinger->link, 0, part(&pinger->inbox, 0, PING_OCTETS));
	return pinger;
}

/* A round begins only when the messages of the last round have come on all connections. */
static void run_rounds(struct crowd *crowd, unsigned rounds)
{
	bool listens = crowd->options->listens;

	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned i = 0; i < crowd->size && !listens; i++)
			send_message(&crowd->pingers[i], round);
		for (unsigned i = 0; i < crowd->size; i++) {
			struct pinger *pinger = take_message(crowd);

			if (listens)
				send_message(pinger, round);
		}
	}
}

void run_many(const struct options *options)
{
	struct crowd crowd = { .options = options, .events = open_events(), .size = options->size };

	if (crowd.size == 0 || crowd.size > MANY_MAX)
		fail("%u connections: 1 to %d are possible", crowd.size, MANY_MAX);
	crowd.pingers = calloc(crowd.size, sizeof(*crowd.pingers));
	check(crowd.pingers, "calloc");
	if (options->listens)
		crowd.listener = start_listening(crowd.events, options);
	else
		connect_all(&crowd);
	while (crowd.established < crowd.size)
		handle_event(&crowd);
	printf("established\n");
	run_rounds(&crowd, options->count);
	printf("all rounds\n");
	for (unsigned i = 0; i < crowd.size && !options->listens; i++)
		check(rdma_disconnect(crowd.pingers[i].link.id) == 0, "rdma_disconnect");
	while (crowd.disconnected < crowd.size)
		handle_event(&crowd);
	for (unsigned i = 0; i < crowd.size; i++) {
		struct pinger *pinger = &crowd.pingers[i];

		rdma_destroy_qp(pinger->link.id);
		free_buffer(&pinger->inbox);
		free_buffer(&pinger->outbox);
	}
	free(crowd.pingers);
}
