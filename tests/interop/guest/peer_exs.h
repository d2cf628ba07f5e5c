/*
 * The protocol of Extended Sockets (docs/exs/protocol.md), written from its page: one connection, its window, and the
 * octets of its messages. A guest has regions instead of memory windows, and does not allow the other end to invalidate.
 */
#ifndef PEER_EXS_H
#define PEER_EXS_H

#include "peer.h"

enum {
	EXS_HEADER = 32,
	EXS_HELLO = 40,
	/* The most octets of immediate data that either end sends here. */
	EXS_SMALL = 1024,
	EXS_SLOT = EXS_HEADER + EXS_SMALL,
	EXS_WINDOW = 16,
	/* Messages without acknowledgement, or adverts of a stream. */
	EXS_CREDITS = 8,
	EXS_RING = 64 << 10,
	/* Headers of Sends that are under way. */
	EXS_HEADERS = 32,
};

enum exs_type {
	EXS_CREDIT = 0x01,
	EXS_MSG = 0x10,
	EXS_ACK = 0x11,
	EXS_DATA = 0x20,
	EXS_ADVERT = 0x21,
	EXS_FREE = 0x22,
	EXS_REVOKE = 0x23,
	EXS_SHUTDOWN = 0x30,
	EXS_ABORT = 0x31,
};

enum exs_flag {
	EXS_INLINE = 0x01,
	EXS_EXACT = 0x01,
	EXS_IN_RING = 0x02,
	EXS_LAST = 0x04,
	EXS_HOLD = 0x08,
	EXS_FIRST = 0x01,
	EXS_WAIT_ALL = 0x02,
};

/* A message of the protocol, without its limit. */
struct exs_message {
	uint8_t type, flags;
	uint32_t id, len, stag;
	uint64_t a, b;
};

/* What the other end's hello says. */
struct exs_hello {
	bool is_stream;
	uint16_t window, credits, reads;
	uint32_t slot;
	struct remote ring;
};

struct exs {
	struct link link;
	bool is_stream;
	struct exs_hello peer;
	struct buffer slots, headers, ring;
	/* Sends that came, that went out, and the other end's limit for these, modulo 2^16. */
	uint16_t taken, sent, limit, told;
	unsigned requests, next_header;
	/* Completions of requests that are no Sends. */
	unsigned done;
	void (*handle)(struct exs *exs, const struct exs_message *message, const uint8_t *payload);
	void *user;
};

void exs_open(struct exs *exs, const struct options *options, bool is_stream);
/* Says that nothing more comes behind `end`, and waits until no request names any memory. */
void exs_finish(struct exs *exs, uint64_t end);
void exs_close(struct exs *exs, const struct options *options);
/* Takes one completion, and hands the message to `handle` if it is one. */
void exs_take(struct exs *exs);
/* Sends a message, with immediate data if there is some, once the window has a place. */
void exs_send(struct exs *exs, const struct exs_message *message, const struct ibv_sge *payload);
/* Says how many Sends came, if that is due. */
void exs_tell(struct exs *exs);
/* Reads from, or writes to, memory of the other end. A Read is waited for. */
void exs_read(struct exs *exs, struct ibv_sge sge, uint32_t key, uint64_t address);
void exs_write(struct exs *exs, struct ibv_sge sge, uint32_t key, uint64_t address);

/* peer_exs_stream.c */
void run_exs_stream(const struct options *options);

#endif
