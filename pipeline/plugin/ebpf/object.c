/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads handlers from objects of `clang -target bpf`. The file is untrusted: every offset, size and index is checked
 * before use, and every text before it is shown. */
#include "ebpf.h"

#include <ctype.h>
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../../handlers/spindle-bpf.h"
#include "../../error.h"
#include "../../nic.h"
#include "../../process.h"

#define R_CALL 10 /* R_BPF_64_32 */
#define R_DATA 1  /* R_BPF_64_64 */

_Static_assert((int)SP_BPF_ROCE == SP_PKT_ROCE && (int)SP_BPF_IPV6 == SP_PKT_IPV6 && (int)SP_BPF_UDP == SP_PKT_UDP &&
		       (int)SP_BPF_SE == SP_PKT_SE,
	       "flags are copied as they stand");

struct object {
	const uint8_t *bytes;
	size_t len;
	const Elf64_Shdr *section;
	unsigned sections;
	const char *names; /* of sections; ends with a 0 */
	size_t names_len;
	const char *where; /* the section that words are about, or NULL */
	struct sp_error *error;
};

/* "SECTION: what", without control characters. */
static int __attribute__((format(printf, 2, 3))) wrong(const struct object *o, const char *format, ...)
{
	char what[224];
	va_list list;

	va_start(list, format);
	vsnprintf(what, sizeof(what), format, list);
	va_end(list);
	for (char *c = what; *c; c++)
		if (!isprint((unsigned char)*c))
			*c = '?';
	return sp_error_set(o->error, EINVAL, "", "%s%s%s", o->where ? o->where : "", o->where ? ": " : "", what);
}

static bool within(const struct object *o, uint64_t offset, uint64_t len)
{
	return offset <= o->len && len <= o->len - offset;
}

/* ---- sections ----------------------------------------------------------------------------------- */
static int open_header(struct object *o)
{
	const Elf64_Ehdr *h = (const void *)o->bytes;

	if (o->len < sizeof(*h))
		return wrong(o, "is cut off");
	if (h->e_ident[EI_CLASS] != ELFCLASS64)
		return wrong(o, "is an ELF file of 32 bits: BPF's are of 64");
	if (h->e_ident[EI_DATA] != ELFDATA2LSB)
		return wrong(o, "is for big-endian BPF: compile with -target bpfel");
	if (h->e_machine != EM_BPF || h->e_type != ET_REL)
		return wrong(o, "is no object of clang -target bpf -c (is it linked?)");
	if (h->e_shentsize != sizeof(Elf64_Shdr) || !h->e_shnum || h->e_shnum > SP_EBPF_SECTIONS ||
	    h->e_shoff % _Alignof(Elf64_Shdr))
		return wrong(o, "has %u sections of %u bytes: is it damaged?", h->e_shnum, h->e_shentsize);
	if (!within(o, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr)) || h->e_shstrndx >= h->e_shnum)
		return wrong(o, "is cut off: its sections' headers lie behind its end");
	o->section = (const void *)(o->bytes + h->e_shoff);
	o->sections = h->e_shnum;
	for (unsigned i = 0; i < o->sections; i++)
		if (o->section[i].sh_type != SHT_NOBITS && !within(o, o->section[i].sh_offset, o->section[i].sh_size))
			return wrong(o, "is cut off: section %u lies behind its end", i);
	const Elf64_Shdr *s = &o->section[h->e_shstrndx];
	o->names = (const char *)o->bytes + s->sh_offset;
	o->names_len = s->sh_size;
	if (s->sh_type != SHT_STRTAB || !o->names_len || o->names[o->names_len - 1])
		return wrong(o, "has no names of sections: is it damaged?");
	return 0;
}

static const char *name_of(const struct object *o, unsigned section)
{
	const uint32_t at = o->section[section].sh_name;

	return at < o->names_len ? o->names + at : "";
}

/* KIND/ID; NULL: there is none. */
static const Elf64_Shdr *beside(const struct object *o, const char *kind, const char *id)
{
	const size_t len = strlen(kind);

	for (unsigned i = 0; i < o->sections; i++) {
		const char *name = name_of(o, i);

		if (o->section[i].sh_type == SHT_PROGBITS && !strncmp(name, kind, len) && name[len] == '/' &&
		    !strcmp(name + len + 1, id))
			return &o->section[i];
	}
	return NULL;
}

/* ---- what stands beside the code ---------------------------------------------------------------- */
static bool is_text(const char *text, size_t room)
{
	const size_t len = strnlen(text, room);

	for (size_t i = 0; i < len; i++)
		if (!isprint((unsigned char)text[i]))
			return false;
	return len < room;
}

static int read_about(const struct object *o, const char *id, struct sp_ebpf_program *p)
{
	const Elf64_Shdr *s = beside(o, "about", id);
	struct sp_bpf_about about;

	if (!s || s->sh_size != sizeof(about))
		return wrong(o, "has no section about/%.40s: begin it with SP_BPF_HANDLER(...)", id);
	memcpy(&about, o->bytes + s->sh_offset, sizeof(about));
	if (about.abi != SP_BPF_ABI || about.packet_bytes != sizeof(struct sp_bpf_packet))
		return wrong(o, "is built for ABI %u (%u bytes of packet), this NIC has %u (%zu): build it again",
			     about.abi, about.packet_bytes, SP_BPF_ABI, sizeof(struct sp_bpf_packet));
	if (about.state_words > SP_BPF_STATE)
		return wrong(o, "wants %u words of state: at most %u can be", about.state_words, SP_BPF_STATE);
	p->words = about.state_words;
	return 0;
}

static int read_doc(const struct object *o, const char *id, struct sp_ebpf_program *p)
{
	const Elf64_Shdr *s = beside(o, "doc", id);
	const char *text = s ? (const char *)o->bytes + s->sh_offset : "an eBPF handler";

	if (s && (!is_text(text, s->sh_size) || strlen(text) >= sizeof(p->doc)))
		return wrong(o, "has a doc/%.40s that is no line of at most %zu characters", id, sizeof(p->doc) - 1);
	snprintf(p->doc, sizeof(p->doc), "%s", text);
	return 0;
}

/* Texts one after the other. What they are made of, sp_handler_check() looks at. */
static int read_names(const struct object *o, const char *kind, const char *id, const char **name, unsigned *count)
{
	const Elf64_Shdr *s = beside(o, kind, id);
	const char *at = s ? (const char *)o->bytes + s->sh_offset : NULL, *end = s ? at + s->sh_size : NULL;

	if (s && (!s->sh_size || end[-1]))
		return wrong(o, "has a %s/%.40s that does not end with a 0 byte", kind, id);
	for (; at < end && *at; at += strlen(at) + 1) {
		if (*count == SP_EBPF_NAMES)
			return wrong(o, "has more than %d names in %s/%.40s", SP_EBPF_NAMES, kind, id);
		if (!is_text(at, (size_t)(end - at)))
			return wrong(o, "has a name in %s/%.40s that cannot be printed", kind, id);
		name[(*count)++] = at;
	}
	return 0;
}

static int read_params(const struct object *o, const char *id, struct sp_ebpf_program *p)
{
	const Elf64_Shdr *s = beside(o, "params", id);
	const struct sp_bpf_param_about *a = s ? (const void *)(o->bytes + s->sh_offset) : NULL;

	if (s && (s->sh_size % sizeof(*a) || s->sh_size / sizeof(*a) > SP_BPF_PARAMS))
		return wrong(o, "has a params/%.40s that is not of at most %d parameters", id, SP_BPF_PARAMS);
	for (size_t i = 0; s && i < s->sh_size / sizeof(*a); i++, a++) {
		if (!is_text(a->name, sizeof(a->name)) || !is_text(a->fallback, sizeof(a->fallback)) ||
		    !is_text(a->help, sizeof(a->help)))
			return wrong(o, "has a parameter in params/%.40s that cannot be printed", id);
		p->param[p->params++] = (struct sp_param){a->name, SP_UINT, *a->fallback ? a->fallback : NULL,
							  .help = *a->help ? a->help : NULL};
	}
	return 0;
}

/* ---- code --------------------------------------------------------------------------------------- */
static int find_call(const char *name)
{
	for (unsigned i = 0; i < sp_ebpf_calls_count; i++)
		if (!strcmp(sp_ebpf_calls[i].name, name))
			return (int)i;
	return -1;
}

struct symbols {
	const Elf64_Sym *symbol;
	uint64_t count;
	const char *names;
	uint64_t names_len;
};

static int read_symbols(const struct object *o, uint32_t section, struct symbols *s)
{
	if (section >= o->sections || o->section[section].sh_type != SHT_SYMTAB ||
	    o->section[section].sh_entsize != sizeof(Elf64_Sym) ||
	    o->section[section].sh_offset % _Alignof(Elf64_Sym) || o->section[section].sh_link >= o->sections)
		return wrong(o, "has no symbols that could be read: is it damaged?");
	const Elf64_Shdr *names = &o->section[o->section[section].sh_link];
	s->symbol = (const void *)(o->bytes + o->section[section].sh_offset);
	s->count = o->section[section].sh_size / sizeof(Elf64_Sym);
	s->names = (const char *)o->bytes + names->sh_offset;
	s->names_len = names->sh_size;
	if (names->sh_type != SHT_STRTAB || !s->names_len || s->names[s->names_len - 1])
		return wrong(o, "has no names of symbols: is it damaged?");
	return 0;
}

/* What a symbol is called: its own name, or its section's. */
static const char *called(const struct object *o, const struct symbols *s, const Elf64_Sym *symbol)
{
	const char *name = symbol->st_name < s->names_len ? s->names + symbol->st_name : "";

	return !*name && symbol->st_shndx < o->sections ? name_of(o, symbol->st_shndx) : name;
}

/* What a call goes to: a static function's has the section's symbol, and the distance from its begin. */
static const Elf64_Sym *function(const struct symbols *s, const Elf64_Sym *symbol, const struct ebpf_insn *i)
{
	const uint64_t at = symbol->st_value + ((uint64_t)(int64_t)i->imm + 1) * sizeof(*i);

	for (uint64_t k = 0; k < s->count; k++)
		if (s->symbol[k].st_shndx == symbol->st_shndx && s->symbol[k].st_value == at &&
		    ELF64_ST_TYPE(s->symbol[k].st_info) == STT_FUNC)
			return &s->symbol[k];
	return symbol;
}

static int relocate_one(const struct object *o, const struct symbols *s, const Elf64_Rel *rel,
			struct sp_ebpf_program *p)
{
	const uint64_t index = ELF64_R_SYM(rel->r_info), at = rel->r_offset / sizeof(*p->ins);
	const Elf64_Sym *symbol = &s->symbol[index < s->count ? index : 0];
	struct ebpf_insn *i;
	int number;

	if (index >= s->count || rel->r_offset % sizeof(*p->ins) || at >= p->count)
		return wrong(o, "has a relocation outside of it: is the file damaged?");
	i = &p->ins[at];
	if (ELF64_R_TYPE(rel->r_info) == R_DATA)
		return wrong(o,
			     "instruction %llu uses the variable or constant '%.40s': there are none; use "
			     "sp_bpf_state_*(), and if for switch and tables",
			     (unsigned long long)at, called(o, s, symbol));
	if (ELF64_R_TYPE(rel->r_info) != R_CALL || i->code != (BPF_JMP | EBPF_CALL))
		return wrong(o, "has a relocation of an unknown kind, %u", (unsigned)ELF64_R_TYPE(rel->r_info));
	if (symbol->st_shndx != SHN_UNDEF)
		return wrong(o,
			     "instruction %llu calls the function '%.40s': make it static inline "
			     "__attribute__((always_inline))",
			     (unsigned long long)at, called(o, s, function(s, symbol, i)));
	number = find_call(called(o, s, symbol));
	if (number < 0)
		return wrong(o, "instruction %llu calls '%.40s', which is none of spindle-bpf.h's calls",
			     (unsigned long long)at, called(o, s, symbol));
	i->src_reg = 0;
	i->imm = number;
	return 0;
}

static int relocate(const struct object *o, unsigned section, struct sp_ebpf_program *p)
{
	struct symbols symbols = {0};
	uint64_t seen = 0;
	int r = 0;

	for (unsigned i = 0; i < o->sections && !r; i++) {
		const Elf64_Shdr *s = &o->section[i];
		const Elf64_Rel *rel;

		if ((s->sh_type != SHT_REL && s->sh_type != SHT_RELA) || s->sh_info != section)
			continue;
		if (s->sh_type == SHT_RELA || s->sh_entsize != sizeof(*rel) || s->sh_offset % _Alignof(Elf64_Rel))
			return wrong(o, "has relocations that clang does not make");
		rel = (const void *)(o->bytes + s->sh_offset);
		seen += s->sh_size / sizeof(*rel);
		if (seen > p->count) /* sections may lie over each other: there would be no end to them */
			return wrong(o, "has more relocations than instructions: is the file damaged?");
		r = read_symbols(o, s->sh_link, &symbols);
		for (uint64_t k = 0; k < s->sh_size / sizeof(*rel) && !r; k++)
			r = relocate_one(o, &symbols, &rel[k], p);
	}
	return r;
}

static int read_code(const struct object *o, unsigned section, struct sp_ebpf_program *p)
{
	const Elf64_Shdr *s = &o->section[section];

	if (s->sh_size % sizeof(*p->ins) || !s->sh_size || s->sh_size / sizeof(*p->ins) > SP_EBPF_INS)
		return wrong(o, "has %llu bytes of code: a handler has 1 to %u instructions of 8",
			     (unsigned long long)s->sh_size, SP_EBPF_INS);
	p->count = (uint32_t)(s->sh_size / sizeof(*p->ins));
	p->ins = malloc(s->sh_size);
	if (!p->ins)
		return sp_error_set(o->error, ENOMEM, "", "out of memory");
	memcpy(p->ins, o->bytes + s->sh_offset, s->sh_size);
	return relocate(o, section, p);
}

/* ---- all of it ---------------------------------------------------------------------------------- */
static bool is_handler(const struct object *o, unsigned section)
{
	return !strncmp(name_of(o, section), "handler/", 8) && o->section[section].sh_type == SHT_PROGBITS;
}

static int read_program(struct object *o, unsigned section, struct sp_ebpf_program *p)
{
	const char *id = name_of(o, section) + 8;
	int r;

	if (!*id || strlen(id) >= sizeof(p->name))
		return wrong(o, "a section handler/... has a name of no or too many characters");
	snprintf(p->section, sizeof(p->section), "handler/%s", id);
	for (char *c = p->section; *c; c++)
		if (!isprint((unsigned char)*c))
			*c = '?';
	o->where = p->section;
	snprintf(p->name, sizeof(p->name), "%s", id);
	for (char *c = p->name; *c; c++)
		if (*c == '_')
			*c = '-';
	r = read_about(o, id, p);
	if (!r)
		r = read_doc(o, id, p);
	if (!r)
		r = read_names(o, "drops", id, p->drop, &p->drops);
	if (!r)
		r = read_names(o, "counters", id, p->counter, &p->counters);
	if (!r)
		r = read_params(o, id, p);
	if (!r)
		r = read_code(o, section, p);
	return r;
}

int sp_ebpf_read(uint8_t *bytes, size_t len, struct sp_ebpf **ebpf, struct sp_error *error)
{
	struct object o = {.bytes = bytes, .len = len, .error = error};
	struct sp_ebpf *e = NULL;
	unsigned handlers = 0;
	int r = open_header(&o);

	for (unsigned i = 0; i < o.sections && !r; i++)
		handlers += is_handler(&o, i);
	if (!r && (!handlers || handlers > SP_EBPF_PROGRAMS))
		r = wrong(&o, "has %u sections handler/NAME: one to %d can be (SP_BPF_HANDLER)", handlers,
			  SP_EBPF_PROGRAMS);
	if (!r) {
		e = calloc(1, sizeof(*e) + handlers * sizeof(*e->program));
		r = e ? 0 : sp_error_set(error, ENOMEM, "", "out of memory");
	}
	*ebpf = NULL;
	if (r) {
		free(bytes);
		return r;
	}
	e->bytes = bytes;
	for (unsigned i = 0; i < o.sections && !r; i++)
		if (is_handler(&o, i))
			r = read_program(&o, i, &e->program[e->count++]);
	if (r)
		sp_ebpf_close(e);
	else
		*ebpf = e;
	return r;
}
