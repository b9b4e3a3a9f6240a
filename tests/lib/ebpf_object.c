/* SPDX-License-Identifier: BSD-3-Clause */
#include "ebpf_object.h"

int call_index(const char *name)
{
	for (unsigned i = 0; i < sp_ebpf_calls_count; i++)
		if (!strcmp(sp_ebpf_calls[i].name, name))
			return (int)i;
	return -1;
}

Elf64_Shdr *object_section(struct object *o, unsigned index)
{
	Elf64_Ehdr *h = (void *)o->bytes;

	return (Elf64_Shdr *)(void *)(o->bytes + h->e_shoff) + index;
}

static void object_put(struct object *o, unsigned index, const char *name, uint32_t type, const void *bytes, size_t len)
{
	Elf64_Shdr *names = object_section(o, 1), *s = object_section(o, index);

	s->sh_name = (uint32_t)names->sh_size;
	memcpy(o->bytes + names->sh_offset + names->sh_size, name, strlen(name) + 1);
	names->sh_size += strlen(name) + 1;
	s->sh_type = type;
	s->sh_offset = o->len;
	s->sh_size = len;
	memcpy(o->bytes + o->len, bytes, len);
	o->len += (len + 7) & ~(size_t)7;
}

void object_make(struct object *o, const char *id, const struct ebpf_insn *ins, uint32_t count, uint32_t words,
		 const char *calls)
{
	const struct sp_bpf_about about = {SP_BPF_ABI, sizeof(struct sp_bpf_packet), words, 0};
	Elf64_Ehdr *h = (void *)o->bytes;
	Elf64_Sym symbol[2] = {{0}};
	Elf64_Rel rel = {0};
	char name[64];

	memset(o, 0, sizeof(*o));
	memcpy(h->e_ident, ELFMAG, SELFMAG);
	h->e_ident[EI_CLASS] = ELFCLASS64;
	h->e_ident[EI_DATA] = ELFDATA2LSB;
	h->e_ident[EI_VERSION] = h->e_version = EV_CURRENT;
	h->e_type = ET_REL;
	h->e_machine = EM_BPF;
	h->e_ehsize = sizeof(*h);
	h->e_shoff = sizeof(*h);
	h->e_shentsize = sizeof(Elf64_Shdr);
	h->e_shnum = AT_SECTIONS;
	h->e_shstrndx = 1;
	o->len = sizeof(*h) + AT_SECTIONS * sizeof(Elf64_Shdr);
	*object_section(o, 1) = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = o->len, .sh_size = 1};
	o->len += 1024;
	snprintf(name, sizeof(name), "handler/%s", id);
	object_put(o, AT_CODE, name, SHT_PROGBITS, ins, count * sizeof(*ins));
	snprintf(name, sizeof(name), "about/%s", id);
	object_put(o, AT_ABOUT, name, SHT_PROGBITS, &about, sizeof(about));
	snprintf(name, sizeof(name), "counters/%s", id);
	object_put(o, AT_COUNTERS, name, SHT_PROGBITS, "first\0second", sizeof("first\0second"));
	snprintf(name, sizeof(name), "drops/%s", id);
	object_put(o, AT_DROPS, name, SHT_PROGBITS, "unwanted", sizeof("unwanted"));
	if (calls) {
		symbol[1].st_name = (uint32_t)object_section(o, 1)->sh_size;
		for (uint32_t i = 0; i < count; i++)
			if (ins[i].code == (BPF_JMP | EBPF_CALL) && ins[i].imm == -1 && !rel.r_info)
				rel = (Elf64_Rel){i * sizeof(*ins), ELF64_R_INFO(1, 10)};
	}
	object_put(o, AT_SYMBOLS, calls ? calls : "", SHT_SYMTAB, symbol, sizeof(symbol));
	object_section(o, AT_SYMBOLS)->sh_entsize = sizeof(Elf64_Sym);
	object_section(o, AT_SYMBOLS)->sh_link = 1;
	object_put(o, AT_REL, ".rel", SHT_REL, &rel, calls ? sizeof(rel) : 0);
	object_section(o, AT_REL)->sh_entsize = sizeof(rel);
	object_section(o, AT_REL)->sh_link = AT_SYMBOLS;
	object_section(o, AT_REL)->sh_info = AT_CODE;
}
