/* What the five programs share that is not about sockets: files, the header of a transfer, CRC32c. */
#ifndef COPY_H
#define COPY_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 255 };

/* In front of the name and the octets of a file, in network order. */
struct head {
    uint32_t name_len;
    uint32_t len_high, len_low;
};

static inline void fail(const char *what) {
    perror(what);
    exit(1);
}

static inline void refuse(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static inline void *allocate(size_t len) {
    void *memory = malloc(len);
    if (memory == NULL) fail("malloc");
    return memory;
}

static inline struct sockaddr_in address_of(const char *host, int port) {
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)port);
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) refuse("the address is not one of IPv4");
    return address;
}

static inline void say_port(const struct sockaddr_in *address) {
    printf("%d\n", ntohs(address->sin_port));
    fflush(stdout);
}

static inline struct head make_head(const char *name, uint64_t len) {
    struct head head;
    if (strlen(name) > MAX_NAME) refuse("the name is too long");
    head.name_len = htonl((uint32_t)strlen(name));
    head.len_high = htonl((uint32_t)(len >> 32));
    head.len_low = htonl((uint32_t)len);
    return head;
}

static inline size_t name_length(const struct head *head) {
    uint32_t len = ntohl(head->name_len);
    if (len > MAX_NAME) refuse("the name is too long");
    return len;
}

static inline uint64_t file_length(const struct head *head) {
    return (uint64_t)ntohl(head->len_high) << 32 | ntohl(head->len_low);
}

/* Opens a new file in the folder. A name that leads out of it is refused. */
static inline FILE *open_below(const char *folder, const char *name) {
    char path[4096];
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL) refuse("the name is no name of a file");
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) refuse("the folder's name is too long");
    FILE *file = fopen(path, "wb");
    if (file == NULL) fail(path);
    return file;
}

/* Opens a file, and tells its length. */
static inline FILE *open_file(const char *path, uint64_t *len) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) fail(path);
    long end = ftell(file);
    if (end < 0 || fseek(file, 0, SEEK_SET) != 0) fail(path);
    *len = (uint64_t)end;
    return file;
}

static inline size_t read_piece(FILE *file, void *piece, size_t len) {
    size_t here = fread(piece, 1, len, file);
    if (here == 0) refuse("the file has become shorter");
    return here;
}

static inline void write_piece(FILE *file, const void *piece, size_t len) {
    if (fwrite(piece, 1, len, file) != len) fail("fwrite");
}

static inline void close_file(FILE *file) {
    if (fclose(file) != 0) fail("fclose");
}

/* Continues a CRC32c, which begins with 0. */
static inline uint32_t crc32c(uint32_t crc, const void *octets, size_t len) {
    static uint32_t table[256];
    const uint8_t *next = octets;
    if (table[1] == 0) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i;
            for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0x82F63B78u : 0);
            table[i] = value;
        }
    }
    crc = ~crc;
    while (len-- > 0) crc = crc >> 8 ^ table[(crc ^ *next++) & 0xFF];
    return ~crc;
}

static inline void check_crc(uint32_t ours, uint32_t theirs) {
    if (ours != theirs) refuse("the copy has another CRC");
}

#endif
