/* SPDX-License-Identifier: BSD-3-Clause */
/* Filter rules: pcap-filter(7) expressions, compiled and interpreted by libpcap. The flow cache stores the results, so
 * that most packets run no filter (flow_cache.h). */
#ifndef PIPELINE_RX_RULE_H
#define PIPELINE_RX_RULE_H

#include <stdbool.h>

#define SP_RULE_EXPRESSION_MAX 4096 /* bytes */

struct rte_mbuf;
struct sp_context;
struct sp_error;
struct sp_rule;
struct sp_rule_reads;

/* [control] -EINVAL: invalid, too long, empty, or uses packet metadata (text in error, key "filter"; error may be
 * NULL), -ENOMEM. May block on DNS for host names in the expression. libpcap's compiler is thread-safe since 1.8. */
int sp_rule_create(const char *expression, struct sp_context *context, struct sp_rule **rule, struct sp_error *error);
void sp_rule_destroy(struct sp_rule *rule); /* NULL is fine; after no worker uses it any more */
bool sp_rule_matches(const struct sp_rule *rule, struct rte_mbuf *packet); /* any thread */
struct sp_context *sp_rule_context(const struct sp_rule *rule);
void sp_rule_give(struct sp_rule *rule, struct sp_context *context); /* [control] workers may read it meanwhile */
const struct sp_rule_reads *sp_rule_reads(const struct sp_rule *rule);

#endif
