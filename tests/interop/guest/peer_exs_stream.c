/* Extended Sockets: a stream, which the sender writes into adverts of the receiver, or else into its ring. */
#include "peer_exs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ADVERT_OCTETS = 24 << 10 };

/* Both directions of a stream. What comes is compared at once, and as much is sent back. */
struct stream {
	/* Octets that came, and that went out. */
	uint64_t in, out;
	struct buffer advert, octets;
	/* Receiving: the epoch of the own advert, and what of it is used. Without an advert it is void. */
	uint32_t epoch, used;
	bool is_advertised, is_void, waits_for_all;
	uint64_t ring_read, ring_told;
	bool holds;
	/* Sending: the epoch of the other end's adverts, or 0. */
	uint32_t peer_epoch;
	struct exs_message adverts[EXS_CREDITS];
	unsigned first, adverts_there;
	uint64_t ring_written, ring_freed;
	bool has_ended;
	uint64_t end;
};

static void compare(struct stream *stream, const uint8_t *octets, uint32_t len)
{
	expect(octets, len, seed(SIDE_HOST, KIND_SEND, 0, 0), stream->in, "the stream");
	stream->in += len;
}

static void handle_data(struct exs *exs, struct stream *stream, const struct exs_message *data,
			const uint8_t *payload)
{
	if (data->a != stream->in)
		fail("octets from %llu on came at %llu", (unsigned long long)data->a, (unsigned long long)stream->in);
	if (data->flags & EXS_IN_RING) {
		uint32_t place = (uint32_t)(stream->ring_read % EXS_RING);
		uint32_t before_end = data->len < EXS_RING - place ? data->len : EXS_RING - place;

		stream->is_advertised = false;
		stream->is_void = true;
		stream->holds = data->flags & EXS_HOLD;
		if (data->flags & EXS_INLINE) {
			compare(stream, payload, data->len);
		} else {
			compare(stream, exs->ring.octets + place, before_end);
			compare(stream, exs->ring.octets, data->len - before_end);
		}
		stream->ring_read += data->len;
		return;
	}
	if (!stream->is_advertised || data->id != stream->epoch || data->len > ADVERT_OCTETS - stream->used)
		fail("octets for an advert that is not there");
	compare(stream, data->flags & EXS_INLINE ? payload : stream->advert.octets + stream->used, data->len);
	stream->used += data->len;
	if (!(data->flags & EXS_LAST) != (stream->waits_for_all && stream->used < ADVERT_OCTETS))
		fail("the advert ends at the wrong place");
	stream->is_advertised = !(data->flags & EXS_LAST);
	/* The other end has accepted the first advert of the epoch, which said that the ring was empty. */
	stream->ring_told = stream->ring_read;
	stream->holds = false;
}

static void handle_advert(struct stream *stream, const struct exs_message *advert)
{
	if (advert->flags & EXS_FIRST) {
		if (advert->b > stream->out || stream->adverts_there > 0)
			fail("an epoch begins at %llu", (unsigned long long)advert->b);
		if (advert->b == stream->out) {
			stream->peer_epoch = advert->id;
			stream->ring_freed = stream->ring_written;
		}
	}
	if (advert->id != stream->peer_epoch)
		return;
	if (stream->adverts_there == EXS_CREDITS)
		fail("too many adverts");
	stream->adverts[(stream->first + stream->adverts_there++) % EXS_CREDITS] = *advert;
}

static void handle_stream(struct exs *exs, const struct exs_message *message, const uint8_t *payload)
{
	struct stream *stream = exs->user;

	switch (message->type) {
	case EXS_DATA: handle_data(exs, stream, message, payload); break;
	case EXS_ADVERT: handle_advert(stream, message); break;
	case EXS_FREE: stream->ring_freed = message->a; break;
	case EXS_SHUTDOWN:
		stream->has_ended = true;
		stream->end = message->a;
		break;
	default: fail("a message of type %02x", message->type);
	}
}

/* Advertises the own memory if it is free. Every second advert waits for all of it. */
static void advertise(struct exs *exs, struct stream *stream)
{
	struct exs_message advert = { .type = EXS_ADVERT, .len = ADVERT_OCTETS };

	if (stream->is_advertised || stream->has_ended)
		return;
	if (stream->is_void) {
		stream->epoch++;
		advert.flags |= EXS_FIRST;
		advert.b = stream->in;
		stream->is_void = false;
	}
	stream->waits_for_all = !stream->waits_for_all;
	advert.flags |= stream->waits_for_all ? EXS_WAIT_ALL : 0;
	advert.id = stream->epoch;
	advert.stag = stream->advert.mr->rkey;
	advert.a = (uintptr_t)stream->advert.octets;
	stream->used = 0;
	stream->is_advertised = true;
	exs_send(exs, &advert, NULL);
}

static void free_ring(struct exs *exs, struct stream *stream)
{
	if (stream->holds || stream->ring_read - stream->ring_told < EXS_RING / 4 || stream->has_ended)
		return;
	stream->ring_told = stream->ring_read;
	exs_send(exs, &(struct exs_message){ .type = EXS_FREE, .a = stream->ring_read }, NULL);
}

static uint32_t least(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* Writes octets into the other end's first advert. */
static struct exs_message use_advert(struct exs *exs, struct stream *stream, uint64_t len)
{
	struct exs_message *advert = &stream->adverts[stream->first % EXS_CREDITS];
	struct exs_message data = { .type = EXS_DATA, .id = stream->peer_epoch, .len = least(len, advert->len) };

	if (data.len > EXS_SMALL)
		exs_write(exs, part(&stream->octets, stream->out, data.len), advert->stag, advert->a);
	advert->a += data.len;
	advert->len -= data.len;
	if (advert->len == 0 || !(advert->flags & EXS_WAIT_ALL)) {
		data.flags = EXS_LAST;
		stream->first++;
		stream->adverts_there--;
	}
	return data;
}

/* Writes octets into the other end's ring, as many as it has room for. That voids the adverts. */
static struct exs_message use_ring(struct exs *exs, struct stream *stream, uint64_t len)
{
	const struct remote *ring = &exs->peer.ring;
	struct exs_message data = { .type = EXS_DATA, .flags = EXS_IN_RING };
	uint64_t place = stream->ring_written % ring->len;
	uint32_t before_end;

	data.len = least(least(len, ring->len - (stream->ring_written - stream->ring_freed)), ring->len / 4);
	if (data.len == 0)
		return data;
	before_end = least(data.len, ring->len - place);
	if (data.len > EXS_SMALL) {
		exs_write(exs, part(&stream->octets, stream->out, before_end), ring->key, ring->address + place);
		if (before_end < data.len)
			exs_write(exs, part(&stream->octets, stream->out + before_end, data.len - before_end), ring->key,
				  ring->address);
	}
	stream->ring_written += data.len;
	stream->peer_epoch = 0;
	return data;
}

/* Sends octets back. A Write and its DATA go out without a look at what comes in between. */
static void send_back(struct exs *exs, struct stream *stream)
{
	struct exs_message data;
	struct ibv_sge sge;

	/* Room for two Writes and a Send, and a place in the window. */
	while (exs->requests + 3 > EXS_HEADERS || (int16_t)(uint16_t)(exs->limit - exs->sent - 1) <= 0) {
		exs_tell(exs);
		exs_take(exs);
	}
	if (stream->adverts_there > 0)
		data = use_advert(exs, stream, stream->in - stream->out);
	else
		data = use_ring(exs, stream, stream->in - stream->out);
	if (data.len == 0) {
		exs_take(exs);
		return;
	}
	data.a = stream->out;
	sge = part(&stream->octets, stream->out, data.len);
	data.flags |= data.len <= EXS_SMALL ? EXS_INLINE : 0;
	stream->out += data.len;
	exs_send(exs, &data, data.len <= EXS_SMALL ? &sge : NULL);
}

void run_exs_stream(const struct options *options)
{
	struct stream stream = { .is_void = true };
	struct exs exs;

	exs_open(&exs, options, true);
	exs.handle = handle_stream;
	exs.user = &stream;
	stream.advert = make_buffer(exs.link.id->pd, ADVERT_OCTETS, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	stream.octets = make_buffer(exs.link.id->pd, options->size, 0);
	fill(stream.octets.octets, options->size, seed(SIDE_GUEST, KIND_SEND, 0, 0), 0);
	while (!stream.has_ended || stream.out < stream.in) {
		advertise(&exs, &stream);
		free_ring(&exs, &stream);
		if (stream.out < stream.in && stream.in <= options->size)
			send_back(&exs, &stream);
		else
			exs_take(&exs);
		exs_tell(&exs);
	}
	if (stream.end != stream.in || stream.in != options->size)
		fail("%llu octets came, and %llu were sent", (unsigned long long)stream.in,
		     (unsigned long long)stream.end);
	exs_finish(&exs, stream.out);
	free_buffer(&stream.octets);
	free_buffer(&stream.advert);
	exs_close(&exs, options);
}
