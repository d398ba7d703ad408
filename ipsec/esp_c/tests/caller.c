/* Seals and opens packets in every suite as a C caller does, and checks that every misuse is answered with a status.
 *
 *   caller DIRECTORY < keys       keys: for each suite its number and its wrapped key, 73 bytes, under the KEK of 32 sevens
 */
#define _POSIX_C_SOURCE 200809L
#include <culvert_esp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(what)                                                     \
  do {                                                                  \
    if (!(what)) {                                                      \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

enum { PACKET = 1400, ROOM = PACKET + CULVERT_ESP_OVERHEAD };
static const char *const LEGACY =
    "null-hmac-sha256-128,aes-ctr-hmac-md5-96, aes-cbc-hmac-sha1-96,aes-cbc-hmac-sha256-128";

static uint8_t kek[32];
static uint8_t inner[PACKET];
static uint8_t sealed_bytes[ROOM];

static CulvertEsp *engine_with(const char *allow) {
  CulvertEsp *engine = NULL;
  CHECK(culvert_esp_new(kek, sizeof kek, allow, 16, &engine) == CULVERT_ESP_STATUS_OK);
  CHECK(engine != NULL);
  return engine;
}

static CulvertEspSealed seal(const CulvertEsp *engine, const CulvertEspSa *sa) {
  CulvertEspSealed sealed;
  CHECK(culvert_esp_seal(engine, sa, 1000, inner, PACKET, sealed_bytes, ROOM, &sealed) == CULVERT_ESP_STATUS_OK);
  return sealed;
}

static CulvertEspOpened open_copy(const CulvertEsp *engine, const CulvertEspSa *sa, size_t len, size_t damaged,
                                  uint8_t *copy) {
  CulvertEspOpened opened;
  memcpy(copy, sealed_bytes, len);
  if (damaged < len) copy[damaged] ^= 1;
  CHECK(culvert_esp_open(engine, sa, 1000, copy, len, &opened) == CULVERT_ESP_STATUS_OK);
  return opened;
}

static void packets_go_there_and_back(const CulvertEsp *engine, const CulvertEspSa *sa) {
  uint8_t copy[ROOM];
  const CulvertEspSealed sealed = seal(engine, sa);
  CHECK(sealed.verdict == CULVERT_ESP_VERDICT_OK && sealed.len > PACKET && sealed.len <= ROOM);

  CulvertEspOpened opened = open_copy(engine, sa, sealed.len, sealed.len - 1, copy);
  CHECK(opened.verdict == CULVERT_ESP_VERDICT_ICV && !opened.newest && opened.len == 0);
  opened = open_copy(engine, sa, sealed.len, ROOM, copy);
  CHECK(opened.verdict == CULVERT_ESP_VERDICT_OK && opened.newest && opened.len == PACKET);
  CHECK(memcmp(copy + opened.offset, inner, PACKET) == 0);
  opened = open_copy(engine, sa, sealed.len, ROOM, copy);
  CHECK(opened.verdict == CULVERT_ESP_VERDICT_REPLAY && !opened.newest && opened.len == 0);
  opened = open_copy(engine, sa, 7, ROOM, copy);
  CHECK(opened.verdict == CULVERT_ESP_VERDICT_MALFORMED && opened.len == 0);
}

static void seconds_end_an_sa(const CulvertEsp *engine, CulvertEspSa sa) {
  sa.slot = 9;
  sa.spi = 9999;
  sa.hard.seconds = 2;
  CHECK(seal(engine, &sa).verdict == CULVERT_ESP_VERDICT_OK);
  CulvertEspSealed sealed;
  CHECK(culvert_esp_seal(engine, &sa, 9000, inner, PACKET, sealed_bytes, ROOM, &sealed) == CULVERT_ESP_STATUS_OK);
  CHECK(sealed.verdict == CULVERT_ESP_VERDICT_HARD_LIMIT && sealed.len == 0);
}

static void open_is_refused(CulvertEspStatus status, const CulvertEsp *engine, const CulvertEspSa *sa, uint8_t *packet,
                            size_t len) {
  CulvertEspOpened opened = {CULVERT_ESP_VERDICT_OK, true, 1, 1};
  CHECK(culvert_esp_open(engine, sa, 0, packet, len, &opened) == status);
  CHECK(opened.verdict == CULVERT_ESP_VERDICT_KEY && !opened.newest && opened.offset == 0 && opened.len == 0);
}

static void seal_is_refused(CulvertEspStatus status, const CulvertEsp *engine, const CulvertEspSa *sa,
                            const uint8_t *packet, size_t len, uint8_t *out, size_t room) {
  CulvertEspSealed sealed = {CULVERT_ESP_VERDICT_OK, 1};
  CHECK(culvert_esp_seal(engine, sa, 0, packet, len, out, room, &sealed) == status);
  CHECK(sealed.verdict == CULVERT_ESP_VERDICT_KEY && sealed.len == 0);
}

static void misuse_has_a_status(const CulvertEsp *engine, const CulvertEspSa *sa) {
  uint8_t packet[ROOM] = {0};
  uint64_t memory[64];
  const CulvertEspSa *crooked = (const CulvertEspSa *)((const char *)memory + 1);
  open_is_refused(CULVERT_ESP_STATUS_NULL_POINTER, NULL, sa, packet, 100);
  open_is_refused(CULVERT_ESP_STATUS_NULL_POINTER, engine, NULL, packet, 100);
  open_is_refused(CULVERT_ESP_STATUS_NULL_POINTER, engine, sa, NULL, 100);
  open_is_refused(CULVERT_ESP_STATUS_MISALIGNED, engine, crooked, packet, 100);
  open_is_refused(CULVERT_ESP_STATUS_TOO_LONG, engine, sa, packet, CULVERT_ESP_MAX_PACKET + 1);
  open_is_refused(CULVERT_ESP_STATUS_TOO_LONG, engine, sa, packet, SIZE_MAX);
  CHECK(culvert_esp_open(engine, sa, 0, packet, 100, NULL) == CULVERT_ESP_STATUS_NULL_POINTER);

  seal_is_refused(CULVERT_ESP_STATUS_NULL_POINTER, NULL, sa, inner, PACKET, packet, ROOM);
  seal_is_refused(CULVERT_ESP_STATUS_NULL_POINTER, engine, NULL, inner, PACKET, packet, ROOM);
  seal_is_refused(CULVERT_ESP_STATUS_NULL_POINTER, engine, sa, NULL, PACKET, packet, ROOM);
  seal_is_refused(CULVERT_ESP_STATUS_NULL_POINTER, engine, sa, inner, PACKET, NULL, ROOM);
  seal_is_refused(CULVERT_ESP_STATUS_NO_ROOM, engine, sa, inner, PACKET, packet, ROOM - 1);
  seal_is_refused(CULVERT_ESP_STATUS_NO_ROOM, engine, sa, inner, PACKET, packet, 0);
  seal_is_refused(CULVERT_ESP_STATUS_TOO_LONG, engine, sa, inner, SIZE_MAX, packet, ROOM);
  seal_is_refused(CULVERT_ESP_STATUS_TOO_LONG, engine, sa, inner, PACKET, packet, SIZE_MAX);
  seal_is_refused(CULVERT_ESP_STATUS_TOO_LONG, engine, sa, inner, CULVERT_ESP_MAX_PACKET + 1, packet, 1 << 17);
  seal_is_refused(CULVERT_ESP_STATUS_OVERLAP, engine, sa, packet, 100, packet + 50, ROOM - 50);
  CHECK(culvert_esp_seal(engine, sa, 0, inner, PACKET, packet, ROOM, NULL) == CULVERT_ESP_STATUS_NULL_POINTER);

  CulvertEspSealed sealed;
  CHECK(culvert_esp_seal(engine, sa, 0, inner, 0, packet, ROOM, &sealed) == CULVERT_ESP_STATUS_OK);
  CHECK(sealed.verdict == CULVERT_ESP_VERDICT_MALFORMED);
  CulvertEspOpened opened;
  CHECK(culvert_esp_open(engine, sa, 0, packet, 0, &opened) == CULVERT_ESP_STATUS_OK);
  CHECK(opened.verdict == CULVERT_ESP_VERDICT_MALFORMED);

  CulvertEspSa elsewhere = *sa;
  elsewhere.slot = 16;
  CHECK(seal(engine, &elsewhere).verdict == CULVERT_ESP_VERDICT_KEY);
  culvert_esp_free(NULL);
  CHECK(strcmp(culvert_esp_status_text(CULVERT_ESP_STATUS_OVERLAP), "input and output share bytes") == 0);
  CHECK(strcmp(culvert_esp_status_text(4711), "no such status") == 0);
}

static void engines_are_refused(void) {
  static const struct {
    CulvertEspStatus status;
    const uint8_t *kek;
    size_t kek_len;
    const char *allow;
    uint32_t slots;
  } wrong[] = {
      {CULVERT_ESP_STATUS_NULL_POINTER, NULL, 32, NULL, 16},    {CULVERT_ESP_STATUS_KEK_SIZE, kek, SIZE_MAX, NULL, 16},
      {CULVERT_ESP_STATUS_NO_SLOTS, kek, 32, NULL, 0},          {CULVERT_ESP_STATUS_UNKNOWN_SUITE, kek, 32, "null", 16},
      {CULVERT_ESP_STATUS_NOT_TEXT, kek, 32, "\xff", 16},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    CulvertEsp *made = (CulvertEsp *)inner;
    CHECK(culvert_esp_new(wrong[i].kek, wrong[i].kek_len, wrong[i].allow, wrong[i].slots, &made) == wrong[i].status);
    CHECK(made == NULL);
  }
  CHECK(culvert_esp_new(kek, 32, NULL, 16, NULL) == CULVERT_ESP_STATUS_NULL_POINTER);

  CulvertEsp *made = (CulvertEsp *)inner;
  CHECK(culvert_esp_new_from_file(NULL, NULL, 16, &made) == CULVERT_ESP_STATUS_NULL_POINTER && made == NULL);
  CHECK(culvert_esp_new_from_file("no-such-file", NULL, 16, &made) == CULVERT_ESP_STATUS_KEK_UNREADABLE);
  CHECK(culvert_esp_new_from_file(".", NULL, 16, &made) == CULVERT_ESP_STATUS_KEK_EXPOSED);
}

static CulvertEspStatus from_file(mode_t mode, size_t len) {
  CulvertEsp *made = NULL;
  unlink("kek.bin");
  FILE *file = fopen("kek.bin", "wb");
  CHECK(file != NULL && fwrite(inner, 1, len, file) == len && fclose(file) == 0 && chmod("kek.bin", mode) == 0);
  const CulvertEspStatus status = culvert_esp_new_from_file("kek.bin", "", 16, &made);
  CHECK((made != NULL) == (status == CULVERT_ESP_STATUS_OK));
  culvert_esp_free(made);
  return status;
}

static void kek_files_are_private_and_whole(void) {
  CHECK(from_file(0600, 32) == CULVERT_ESP_STATUS_OK);
  CHECK(from_file(0400, 32) == CULVERT_ESP_STATUS_OK);
  CHECK(from_file(0640, 32) == CULVERT_ESP_STATUS_KEK_EXPOSED);
  CHECK(from_file(0604, 32) == CULVERT_ESP_STATUS_KEK_EXPOSED);
  CHECK(from_file(0600, 31) == CULVERT_ESP_STATUS_KEK_SIZE);
  CHECK(from_file(0600, 33) == CULVERT_ESP_STATUS_KEK_SIZE);
  CHECK(from_file(0600, 0) == CULVERT_ESP_STATUS_KEK_SIZE);
}

int main(int argc, char **argv) {
  CHECK(argc == 2 && chdir(argv[1]) == 0);
  memset(kek, 7, sizeof kek);
  memset(inner, 0xaa, sizeof inner);
  memcpy(inner, "\x45\0\x05\x78\0\0\0\0\x40\x11\0\0\x0a\0\0\1\x0a\0\0\2", 20);

  CulvertEsp *modern = engine_with(NULL), *all = engine_with(LEGACY);
  CulvertEspSa sa = {0};
  uint8_t key[1 + CULVERT_ESP_WRAPPED_KEY_LEN];
  int suites = 0;
  for (; fread(key, sizeof key, 1, stdin) == 1; suites++) {
    sa.suite = key[0];
    memcpy(sa.wrapped_key, key + 1, sizeof sa.wrapped_key);
    sa.replay_window = 1024;
    sa.slot = (uint32_t)suites;
    sa.spi = 256 + (uint32_t)suites;
    for (sa.esn = 0; sa.esn < 2; sa.esn++, sa.slot += 8, sa.spi += 8) packets_go_there_and_back(all, &sa);
    sa.esn = 1;
    sa.slot = (uint32_t)suites;
    const bool legacy = sa.suite >= 128;
    CHECK(seal(modern, &sa).verdict == (legacy ? CULVERT_ESP_VERDICT_KEY : CULVERT_ESP_VERDICT_OK));
  }
  CHECK(suites == 7);
  sa.slot = 15;
  seconds_end_an_sa(all, sa);
  misuse_has_a_status(all, &sa);
  engines_are_refused();
  kek_files_are_private_and_whole();
  culvert_esp_free(modern);
  culvert_esp_free(all);
  puts("all as it should be");
  return 0;
}
