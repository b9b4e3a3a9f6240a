/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Filter rules: pcap-filter(7) expressions, which libpcap compiles and its interpreter runs. The flow cache keeps their
 * answers, so that most packets need no run at all (flow_cache.h).
 */
#ifndef PIPELINE_RULE_H
#define PIPELINE_RULE_H

#include <stdbool.h>

#define SP_RULE_EXPRESSION_MAX 4096 /* bytes */

struct rte_mbuf;
struct sp_context;
struct sp_error;
struct sp_rule;
struct sp_rule_reads;

/*
 * [control] -EINVAL: not a filter expression, too long, empty, or about more than the packet (text in error, key
 * "filter"; error may be NULL), -ENOMEM. May block: host names in the expression are looked up. libpcap's compiler is
 * thread-safe since 1.8.
 */
int sp_rule_create(const char *expression, struct sp_context *context, struct sp_rule **rule, struct sp_error *error);
void sp_rule_destroy(struct sp_rule *rule); /* NULL is fine; no worker may use it any more */
bool sp_rule_matches(const struct sp_rule *rule, struct rte_mbuf *packet); /* any thread */
struct sp_context *sp_rule_context(const struct sp_rule *rule);
void sp_rule_give(struct sp_rule *rule, struct sp_context *context); /* [control] workers may be looking */
const struct sp_rule_reads *sp_rule_reads(const struct sp_rule *rule);

#endif
