/* Extended Sockets: the connection, the window, and messages that the receiver reads. */
#include "peer_exs.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put16(uint8_t *octets, uint16_t value)
{
	value = htobe16(value);
	memcpy(octets, &value, 2);
}

static void put32(uint8_t *octets, uint32_t value)
{
	value = htobe32(value);
	memcpy(octets, &value, 4);
}

static void put64(uint8_t *octets, uint64_t value)
{
	value = htobe64(value);
	memcpy(octets, &value, 8);
}

static uint16_t take16(const uint8_t *octets)
{
	uint16_t value;

	memcpy(&value, octets, 2);
	return be16toh(value);
}

static uint32_t take32(const uint8_t *octets)
{
	uint32_t value;

	memcpy(&value, octets, 4);
	return be32toh(value);
}

static uint64_t take64(const uint8_t *octets)
{
	uint64_t value;

	memcpy(&value, octets, 8);
	return be64toh(value);
}

static void put_hello(const struct exs *exs, uint8_t *octets)
{
	memset(octets, 0, EXS_HELLO);
	memcpy(octets, "weft-exs", 8);
	octets[8] = 1;
	octets[9] = exs->is_stream ? 0x01 : 0;
	put16(octets + 10, EXS_WINDOW);
	put16(octets + 12, EXS_CREDITS);
	put32(octets + 16, EXS_SLOT);
	if (exs->is_stream) {
		put32(octets + 20, EXS_RING);
		put64(octets + 24, (uintptr_t)exs->ring.octets);
		put32(octets + 32, exs->ring.mr->rkey);
	}
	put16(octets + 36, READS_AT_ONCE);
}

static void take_hello(struct exs *exs, const struct cm_event *event)
{
	const uint8_t *octets = event->private_data;

	if (event->private_len < EXS_HELLO || memcmp(octets, "weft-exs", 8) != 0 || octets[8] != 1)
		fail("the private data is no hello");
	exs->peer = (struct exs_hello){
		.is_stream = octets[9] & 0x01,
		.window = take16(octets + 10),
		.credits = take16(octets + 12),
		.reads = take16(octets + 36),
		.slot = take32(octets + 16),
		.ring = { take64(octets + 24), take32(octets + 32), take32(octets + 20) },
	};
	if (exs->peer.is_stream != exs->is_stream || exs->peer.slot < EXS_SLOT || exs->peer.credits < EXS_CREDITS)
		fail("the hello says other things than the case has");
	exs->limit = exs->peer.window;
}

static void post_slot(struct exs *exs, unsigned slot)
{
	post_receive(&exs->link, slot, part(&exs->slots, (size_t)slot * EXS_SLOT, EXS_SLOT));
}

static void make_memory(struct exs *exs)
{
	struct ibv_pd *pd;

	make_qp(&exs->link);
	pd = exs->link.id->pd;
	exs->slots = make_buffer(pd, EXS_WINDOW * EXS_SLOT, IBV_ACCESS_LOCAL_WRITE);
	exs->headers = make_buffer(pd, EXS_HEADERS * EXS_HEADER, 0);
	exs->ring = make_buffer(pd, EXS_RING, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	for (unsigned slot = 0; slot < EXS_WINDOW; slot++)
		post_slot(exs, slot);
}

void exs_open(struct exs *exs, const struct options *options, bool is_stream)
{
	struct link *link = &exs->link;
	uint8_t hello[EXS_HELLO];
	struct rdma_conn_param param = {
		.private_data = hello,
		.private_data_len = sizeof(hello),
		.responder_resources = READS_AT_ONCE,
		.initiator_depth = READS_AT_ONCE,
	};
	struct cm_event event;

	*exs = (struct exs){ .link = { .events = open_events() }, .is_stream = is_stream };
	exs->told = EXS_WINDOW;
	if (options->listens) {
		link->listener = start_listening(link->events, options);
		wait_event(link->events, RDMA_CM_EVENT_CONNECT_REQUEST, &event);
		take_hello(exs, &event);
		link->id = event.id;
		make_memory(exs);
		put_hello(exs, hello);
		check(rdma_accept(link->id, &param) == 0, "rdma_accept");
		wait_event(link->events, RDMA_CM_EVENT_ESTABLISHED, &event);
	} else {
		link->id = start_connecting(link->events, options);
		make_memory(exs);
		put_hello(exs, hello);
		check(rdma_connect(link->id, &param) == 0, "rdma_connect");
		wait_event(link->events, RDMA_CM_EVENT_ESTABLISHED, &event);
		take_hello(exs, &event);
		/* The responder may not send before the first message has come. */
		exs_send(exs, &(struct exs_message){ .type = EXS_CREDIT }, NULL);
	}
	printf("established\n");
	while (options->listens && exs->taken == 0)
		exs_take(exs);
}

void exs_close(struct exs *exs, const struct options *options)
{
	struct link *link = &exs->link;

	if (!options->listens)
		check(rdma_disconnect(link->id) == 0, "rdma_disconnect");
	wait_disconnected(link);
	rdma_destroy_qp(link->id);
	free_buffer(&exs->slots);
	free_buffer(&exs->headers);
	free_buffer(&exs->ring);
	close_link(link);
}

void exs_take(struct exs *exs)
{
	struct exs_message message;
	struct ibv_wc wc;
	const uint8_t *octets;
	unsigned slot;

	next_completion(&exs->link, &wc);
	if (wc.status != IBV_WC_SUCCESS) {
		print_completion(&wc);
		fail("a completion without success");
	}
	if (!is_receive(&wc)) {
		exs->requests--;
		exs->done += wc.wr_id == 1;
		return;
	}
	slot = (unsigned)(wc.wr_id & ~RECEIVE);
	octets = exs->slots.octets + (size_t)slot * EXS_SLOT;
	if (wc.byte_len < EXS_HEADER)
		fail("a message of %u octets", wc.byte_len);
	exs->limit = take16(octets + 2);
	message = (struct exs_message){
		.type = octets[0],
		.flags = octets[1],
		.id = take32(octets + 4),
		.len = take32(octets + 8),
		.stag = take32(octets + 12),
		.a = take64(octets + 16),
		.b = take64(octets + 24),
	};
	if (message.type == EXS_ABORT)
		fail("the other end gives up: fault %u", message.id);
	if (message.type != EXS_CREDIT)
		exs->handle(exs, &message, octets + EXS_HEADER);
	/* Nothing needs the slot any more. It is posted before the other end hears that it was taken. */
	post_slot(exs, slot);
	exs->taken++;
}

/* Returns whether the other end has to hear how many of its Sends came. */
static bool owes(const struct exs *exs)
{
	return (uint16_t)(exs->taken + EXS_WINDOW - exs->told) >= EXS_WINDOW / 2;
}

void exs_tell(struct exs *exs)
{
	if (owes(exs))
		exs_send(exs, &(struct exs_message){ .type = EXS_CREDIT }, NULL);
}

static void post_request(struct exs *exs, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	while (exs->requests >= EXS_HEADERS)
		exs_take(exs);
	wr->send_flags = IBV_SEND_SIGNALED;
	check(ibv_post_send(exs->link.id->qp, wr, &bad) == 0, "ibv_post_send");
	exs->requests++;
}

void exs_send(struct exs *exs, const struct exs_message *message, const struct ibv_sge *payload)
{
	/* The last place is for CREDIT. */
	uint16_t reserved = message->type != EXS_CREDIT;
	struct ibv_sge sges[2];
	struct ibv_send_wr wr = { .sg_list = sges, .num_sge = payload ? 2 : 1, .opcode = IBV_WR_SEND };
	size_t place;
	uint8_t *octets;

	while ((int16_t)(uint16_t)(exs->limit - exs->sent - reserved) <= 0 || exs->requests >= EXS_HEADERS) {
		if (reserved)
			exs_tell(exs);
		exs_take(exs);
	}
	place = (size_t)(exs->next_header++ % EXS_HEADERS) * EXS_HEADER;
	octets = exs->headers.octets + place;
	exs->told = (uint16_t)(exs->taken + EXS_WINDOW);
	octets[0] = message->type;
	octets[1] = message->flags;
	put16(octets + 2, exs->told);
	put32(octets + 4, message->id);
	put32(octets + 8, message->len);
	put32(octets + 12, message->stag);
	put64(octets + 16, message->a);
	put64(octets + 24, message->b);
	sges[0] = part(&exs->headers, place, EXS_HEADER);
	if (payload)
		sges[1] = *payload;
	exs->sent++;
	post_request(exs, &wr);
}

void exs_read(struct exs *exs, struct ibv_sge sge, uint32_t key, uint64_t address)
{
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ };
	unsigned done = exs->done + 1;

	wr.wr.rdma.remote_addr = address;
	wr.wr.rdma.rkey = key;
	post_request(exs, &wr);
	while (exs->done < done)
		exs_take(exs);
}

void exs_write(struct exs *exs, struct ibv_sge sge, uint32_t key, uint64_t address)
{
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };

	wr.wr.rdma.remote_addr = address;
	wr.wr.rdma.rkey = key;
	post_request(exs, &wr);
}

void exs_finish(struct exs *exs, uint64_t end)
{
	exs_send(exs, &(struct exs_message){ .type = EXS_SHUTDOWN, .a = end }, NULL);
	while (exs->requests > 0)
		exs_take(exs);
}

/* Messages that came and were not answered, acknowledgements, and the end. */
struct inbox {
	struct exs_message messages[EXS_CREDITS];
	uint8_t octets[EXS_CREDITS][EXS_SMALL];
	unsigned came, answered, acknowledged;
	bool has_ended;
	uint64_t end;
};

static void handle_message(struct exs *exs, const struct exs_message *message, const uint8_t *payload)
{
	struct inbox *inbox = exs->user;
	unsigned place = inbox->came % EXS_CREDITS;

	switch (message->type) {
	case EXS_MSG:
		if (message->id != inbox->came || inbox->came - inbox->answered >= EXS_CREDITS)
			fail("message %u out of turn", message->id);
		inbox->messages[place] = *message;
		if (message->flags & EXS_INLINE)
			memcpy(inbox->octets[place], payload, message->len);
		inbox->came++;
		break;
	case EXS_ACK:
		if (message->b != 0)
			fail("message %u was not taken", message->id);
		inbox->acknowledged = message->id + 1;
		break;
	case EXS_SHUTDOWN:
		inbox->has_ended = true;
		inbox->end = message->a;
		break;
	default:
		fail("a message of type %02x", message->type);
	}
}

/* Takes the next message, says so, and sends one of the same length back. */
static void answer(struct exs *exs, struct inbox *inbox, const struct buffer *in, const struct buffer *out)
{
	const struct exs_message *message = &inbox->messages[inbox->answered % EXS_CREDITS];
	const uint8_t *octets = inbox->octets[inbox->answered % EXS_CREDITS];
	unsigned number = inbox->answered;
	uint32_t len = message->len;
	struct exs_message reply = { .type = EXS_MSG, .id = number, .len = len };
	struct ibv_sge sge = part(out, 0, len);

	if (len > in->len)
		fail("message %u has %u octets", number, len);
	if (!(message->flags & EXS_INLINE)) {
		exs_read(exs, part(in, 0, len), message->stag, message->a);
		octets = in->octets;
	}
	expect(octets, len, seed(SIDE_HOST, KIND_SEND, 0, number), 0, "a message");
	exs_send(exs, &(struct exs_message){ .type = EXS_ACK, .id = number }, NULL);
	inbox->answered++;
	fill(out->octets, len, seed(SIDE_GUEST, KIND_SEND, 0, number), 0);
	if (len <= EXS_SMALL) {
		reply.flags = EXS_INLINE;
	} else {
		reply.stag = out->mr->rkey;
		reply.a = (uintptr_t)out->octets;
	}
	exs_send(exs, &reply, len > 0 && len <= EXS_SMALL ? &sge : NULL);
	while (inbox->acknowledged <= number)
		exs_take(exs);
}

static void run_exs_message(const struct options *options)
{
	struct inbox inbox = { 0 };
	struct buffer in, out;
	struct exs exs;

	exs_open(&exs, options, false);
	exs.handle = handle_message;
	exs.user = &inbox;
	in = make_buffer(exs.link.id->pd, options->size, IBV_ACCESS_LOCAL_WRITE);
	out = make_buffer(exs.link.id->pd, options->size, IBV_ACCESS_REMOTE_READ);
	while (!inbox.has_ended || inbox.answered < inbox.came) {
		if (inbox.answered < inbox.came)
			answer(&exs, &inbox, &in, &out);
		else
			exs_take(&exs);
		exs_tell(&exs);
	}
	if (inbox.end != options->count || inbox.came != options->count)
		fail("%u messages came, and %llu were sent", inbox.came, (unsigned long long)inbox.end);
	exs_finish(&exs, inbox.answered);
	free_buffer(&in);
	free_buffer(&out);
	exs_close(&exs, options);
}

void run_exs(const struct options *options)
{
	if (strcmp(options->kind, "stream") == 0)
		run_exs_stream(options);
	else
		run_exs_message(options);
}
