/*
 * peer: one end of an interop case, on the guest's verbs (librdmacm and libibverbs over siw).
 *
 * One run is one role of one case. It prints plain lines, `ok` as the last one, and exits with 0 or 1. A wait fails
 * after TIMEOUT_MS, and its message names what did not come.
 */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

enum {
	TIMEOUT_MS = 60000,
	/* If a neighbour answers before the kernel waits for it, the kernel resolves the address only after this time. */
	RESOLVE_MS = 1000,
	/* The largest private data in octets: librdmacm's length has one octet. */
	PRIVATE_DATA_MAX = 255,
	MAIL_OCTETS = 64,
	MAIL_SLOTS = 4,
	GREETING_OCTETS = 32,
	QUEUE_DEPTH = 64,
	/* Well under siw's 128, so that requests have to wait for the depth. */
	READS_AT_ONCE = 4,
};

/* Marks the identifiers of receives. */
#define RECEIVE (1ull << 63)

/* The options of the command line. */
struct options {
	const char *name;
	bool listens;
	const char *address;
	const char *port;
	unsigned count;
	uint32_t size;
	/* Octets of private data to give, and to expect. */
	unsigned give, expect;
	/* This end is the one that makes the disconnect or the bad access of the case (-x). */
	bool acts;
	const char *kind;
};

/* An event of connection management, copied so that it could be acknowledged at once. */
struct cm_event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	uint8_t private_data[256];
	unsigned private_len;
};

/* Registered memory. */
struct buffer {
	uint8_t *octets;
	size_t len;
	struct ibv_mr *mr;
};

/* Memory of the other end. */
struct remote {
	uint64_t address;
	uint32_t key;
	uint32_t len;
};

/* One connection. */
struct link {
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	/* Sends and receives of at most MAIL_OCTETS: slots of receives first, then one of sends. */
	struct buffer mail;
	/* The memory that the other end may write to, and the memory that it may read. */
	struct buffer window, source;
	struct remote peer_window, peer_source;
	/* Private data that came with the connection. */
	uint8_t private_data[256];
	unsigned private_len;
};

/* The contents of each message depend on its sender (side), its kind, its round and its index. */
enum side { SIDE_GUEST = 1, SIDE_HOST = 2 };
enum kind { KIND_SEND, KIND_WRITE, KIND_READ, KIND_PRIVATE };

/* peer.c */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void check(bool good, const char *what);

/* peer_pattern.c */
uint32_t seed(enum side side, enum kind kind, unsigned round, unsigned index);
void fill(uint8_t *octets, size_t len, uint32_t seed, size_t place);
void expect(const uint8_t *octets, size_t len, uint32_t seed, size_t place, const char *what);

/* peer_link.c */
struct rdma_event_channel *open_events(void);
bool next_event(struct rdma_event_channel *events, int timeout_ms, struct cm_event *event);
void wait_event(struct rdma_event_channel *events, enum rdma_cm_event_type expected, struct cm_event *event);
struct rdma_cm_id *start_listening(struct rdma_event_channel *events, const struct options *options);
struct rdma_cm_id *start_connecting(struct rdma_event_channel *events, const struct options *options);
void make_cq(struct link *link, unsigned requests);
void make_qp(struct link *link);
void open_link(struct link *link, const struct options *options);
void close_link(struct link *link);
void wait_disconnected(struct link *link);
void end_link(struct link *link, const struct options *options);
struct rdma_conn_param parameters(const struct options *options, uint8_t *private_data);
void expect_private_data(const uint8_t *octets, unsigned len, const struct options *options);

/* peer_work.c: every request except the greeting makes a completion. */
struct buffer make_buffer(struct ibv_pd *pd, size_t len, int access);
void free_buffer(struct buffer *buffer);
struct ibv_sge part(const struct buffer *buffer, size_t offset, uint32_t len);
void post_receive(struct link *link, uint64_t wr_id, struct ibv_sge sge);
bool post_if_open(struct link *link, uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge sge,
		  const struct remote *remote);
void post(struct link *link, uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge sge,
	  const struct remote *remote);
bool completion_within(struct link *link, int timeout_ms, struct ibv_wc *wc);
void next_completion(struct link *link, struct ibv_wc *wc);
bool is_receive(const struct ibv_wc *wc);
void print_completion(const struct ibv_wc *wc);
void greet(struct link *link, const struct options *options, size_t len);

/* The cases. */
void run_exchange(const struct options *options);
void run_private(const struct options *options);
void run_reject(const struct options *options);
void run_stream(const struct options *options);
void run_access(const struct options *options);
void run_many(const struct options *options);
void run_target(const struct options *options);
void run_exs(const struct options *options);

#endif
