/* Connections: resolving, connecting, accepting and disconnecting. */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rdma_event_channel *open_events(void)
{
	struct rdma_event_channel *events = rdma_create_event_channel();

	check(events, "rdma_create_event_channel");
	check(fcntl(events->fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
	return events;
}

bool next_event(struct rdma_event_channel *events, int timeout_ms, struct cm_event *copy)
{
	struct pollfd fd = { .fd = events->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	while (rdma_get_cm_event(events, &event) != 0) {
		check(errno == EAGAIN, "rdma_get_cm_event");
		if (poll(&fd, 1, timeout_ms) <= 0)
			return false;
	}
	*copy = (struct cm_event){ .type = event->event, .status = event->status, .id = event->id };
	copy->private_len = event->param.conn.private_data_len;
	if (copy->private_len > 0)
		memcpy(copy->private_data, event->param.conn.private_data, copy->private_len);
	printf("event: %s status %d\n", rdma_event_str(event->event), event->status);
	rdma_ack_cm_event(event);
	return true;
}

void wait_event(struct rdma_event_channel *events, enum rdma_cm_event_type expected, struct cm_event *event)
{
	if (!next_event(events, TIMEOUT_MS, event))
		fail("no %s in time", rdma_event_str(expected));
	if (event->type != expected)
		fail("%s where %s was due", rdma_event_str(event->type), rdma_event_str(expected));
}

static struct rdma_addrinfo *resolve(const struct options *options)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *info;

	if (options->listens)
		hints.ai_flags = RAI_PASSIVE;
	check(rdma_getaddrinfo(options->address, options->port, &hints, &info) == 0, "rdma_getaddrinfo");
	return info;
}

struct rdma_cm_id *start_listening(struct rdma_event_channel *events, const struct options *options)
{
	struct rdma_addrinfo *info = resolve(options);
	struct rdma_cm_id *id;

	check(rdma_create_id(events, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	check(rdma_bind_addr(id, info->ai_src_addr) == 0, "rdma_bind_addr");
	check(rdma_listen(id, 128) == 0, "rdma_listen");
	rdma_freeaddrinfo(info);
	printf("listening\n");
	return id;
}

/* Returns an identifier with address and route resolved, ready for rdma_connect. */
struct rdma_cm_id *start_connecting(struct rdma_event_channel *events, const struct options *options)
{
	struct rdma_addrinfo *info = resolve(options);
	struct rdma_cm_id *id;
	struct cm_event event = { .type = RDMA_CM_EVENT_ADDR_ERROR };

	check(rdma_create_id(events, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	for (int waited = 0; event.type == RDMA_CM_EVENT_ADDR_ERROR && waited < TIMEOUT_MS; waited += RESOLVE_MS) {
		check(rdma_resolve_addr(id, NULL, info->ai_dst_addr, RESOLVE_MS) == 0, "rdma_resolve_addr");
		if (!next_event(events, TIMEOUT_MS, &event))
			fail("the address is not resolved in time");
	}
	rdma_freeaddrinfo(info);
	if (event.type != RDMA_CM_EVENT_ADDR_RESOLVED)
		fail("%s instead of an address", rdma_event_str(event.type));
	check(rdma_resolve_route(id, TIMEOUT_MS) == 0, "rdma_resolve_route");
	wait_event(events, RDMA_CM_EVENT_ROUTE_RESOLVED, &event);
	return id;
}

struct rdma_conn_param parameters(const struct options *options, uint8_t *private_data)
{
	fill(private_data, options->give, seed(SIDE_GUEST, KIND_PRIVATE, 0, 0), 0);
	return (struct rdma_conn_param){
		.private_data = private_data,
		.private_data_len = (uint8_t)options->give,
		.responder_resources = READS_AT_ONCE,
		.initiator_depth = READS_AT_ONCE,
	};
}

void expect_private_data(const uint8_t *octets, unsigned len, const struct options *options)
{
	printf("private data: %u octets\n", len);
	if (len != options->expect)
		fail("%u octets of private data instead of %u", len, options->expect);
	expect(octets, len, seed(SIDE_HOST, KIND_PRIVATE, 0, 0), 0, "private data");
}

/* Makes the completion queues for this many requests, with their completion channel. */
void make_cq(struct link *link, unsigned requests)
{
	link->completions = ibv_create_comp_channel(link->id->verbs);
	check(link->completions, "ibv_create_comp_channel");
	check(fcntl(link->completions->fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
	link->cq = ibv_create_cq(link->id->verbs, (int)requests, NULL, link->completions, 0);
	check(link->cq, "ibv_create_cq");
}

/* Makes the link's queue pair and its mail buffer. Uses the link's completion queue if it has one already. */
void make_qp(struct link *link)
{
	if (!link->cq)
		make_cq(link, 2 * QUEUE_DEPTH);
	struct ibv_qp_init_attr attr = {
		.send_cq = link->cq,
		.recv_cq = link->cq,
		.cap = { QUEUE_DEPTH, QUEUE_DEPTH, 2, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};

	check(rdma_create_qp(link->id, NULL, &attr) == 0, "rdma_create_qp");
	link->mail = make_buffer(link->id->pd, (MAIL_SLOTS + 1) * MAIL_OCTETS, IBV_ACCESS_LOCAL_WRITE);
}

static void receive_greeting(struct link *link)
{
	post_receive(link, 0, part(&link->mail, 0, MAIL_OCTETS));
}

static void keep_private_data(struct link *link, const struct cm_event *event)
{
	memcpy(link->private_data, event->private_data, sizeof(link->private_data));
	link->private_len = event->private_len;
}

/* Opens one connection, after posting a receive for the other end's greeting. */
void open_link(struct link *link, const struct options *options)
{
	uint8_t private_data[PRIVATE_DATA_MAX];
	struct rdma_conn_param param = parameters(options, private_data);
	struct cm_event event;

	*link = (struct link){ .events = open_events() };
	if (options->listens) {
		link->listener = start_listening(link->events, options);
		wait_event(link->events, RDMA_CM_EVENT_CONNECT_REQUEST, &event);
		keep_private_data(link, &event);
		link->id = event.id;
		make_qp(link);
		receive_greeting(link);
		check(rdma_accept(link->id, &param) == 0, "rdma_accept");
		wait_event(link->events, RDMA_CM_EVENT_ESTABLISHED, &event);
	} else {
		link->id = start_connecting(link->events, options);
		make_qp(link);
		receive_greeting(link);
		check(rdma_connect(link->id, &param) == 0, "rdma_connect");
		wait_event(link->events, RDMA_CM_EVENT_ESTABLISHED, &event);
		keep_private_data(link, &event);
	}
	printf("established\n");
}

void wait_disconnected(struct link *link)
{
	struct cm_event event;

	wait_event(link->events, RDMA_CM_EVENT_DISCONNECTED, &event);
}

/* The connecting end disconnects, and the listening end waits for that. */
void end_link(struct link *link, const struct options *options)
{
	if (!options->listens)
		check(rdma_disconnect(link->id) == 0, "rdma_disconnect");
	wait_disconnected(link);
	close_link(link);
}

void close_link(struct link *link)
{
	if (link->id) {
		if (link->id->qp)
			rdma_destroy_qp(link->id);
		free_buffer(&link->mail);
		free_buffer(&link->window);
		free_buffer(&link->source);
		if (link->cq)
			check(ibv_destroy_cq(link->cq) == 0, "ibv_destroy_cq");
		if (link->completions)
			check(ibv_destroy_comp_channel(link->completions) == 0, "ibv_destroy_comp_channel");
		check(rdma_destroy_id(link->id) == 0, "rdma_destroy_id");
	}
	if (link->listener)
		check(rdma_destroy_id(link->listener) == 0, "rdma_destroy_id");
	rdma_destroy_event_channel(link->events);
}
