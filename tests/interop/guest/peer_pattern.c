/* Contents of messages. Each octet depends on the sender, the message and its place in the message. */
#include "peer.h"

uint32_t seed(enum side side, enum kind kind, unsigned round, unsigned index)
{
	return (uint32_t)side << 24 | (uint32_t)kind << 16 | (round & 0xFF) << 8 | (index & 0xFF);
}

static uint8_t octet(uint32_t seed, size_t place)
{
	uint32_t mixed = seed * 2654435761u + (uint32_t)place * 2246822519u;

	mixed ^= mixed >> 15;
	return (uint8_t)(mixed * 3266489917u >> 24);
}

void fill(uint8_t *octets, size_t len, uint32_t seed, size_t place)
{
	for (size_t i = 0; i < len; i++)
		octets[i] = octet(seed, place + i);
}

void expect(const uint8_t *octets, size_t len, uint32_t seed, size_t place, const char *what)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t wanted = octet(seed, place + i);

		if (octets[i] != wanted)
			fail("%s: octet %zu of %zu is %02x, not %02x", what, i, len, octets[i], wanted);
	}
}
