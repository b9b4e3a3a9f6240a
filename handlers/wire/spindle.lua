-- SPDX-License-Identifier: BSD-3-Clause
-- What Spindle adds to RoCEv2, for Wireshark and tshark (4.0 or later): tshark -X lua_script:spindle.lua -r capture
--
-- This decodes all of RVMA's headers (rvma.h; BTH's manufacturer opcodes 0xC0 to 0xC8). Everything else on UDP port
-- 4791 goes to Wireshark's own dissector, which shows SDR's control datagrams (sdr.h) as SEND Only with some bytes:
-- this adds their content. Both carry reliability datagrams (reliability.h).

local roce_port = 4791

-- ---- reliability datagrams ----------------------------------------------------------------------------------------
local rel = Proto("spindle_rel", "Spindle Reliability")
local rel_types = { [1] = "POLL", [2] = "ACK" }
local rf = rel.fields
rf.magic = ProtoField.string("spindle_rel.magic", "Magic")
rf.version = ProtoField.uint8("spindle_rel.version", "Version")
rf.type = ProtoField.uint8("spindle_rel.type", "Type", base.DEC, rel_types)
rf.flags = ProtoField.uint8("spindle_rel.flags", "Flags", base.HEX)
rf.unasked = ProtoField.bool("spindle_rel.flags.unasked", "Answers no poll", 8, nil, 0x01)
rf.poll = ProtoField.uint64("spindle_rel.poll", "Poll")
rf.begin = ProtoField.uint64("spindle_rel.begin", "No use for messages below")
rf.from_message = ProtoField.uint64("spindle_rel.from_message", "From message")
rf.from_unit = ProtoField.uint32("spindle_rel.from_unit", "From unit")
rf.to_message = ProtoField.uint64("spindle_rel.to_message", "To message")
rf.to_unit = ProtoField.uint32("spindle_rel.to_unit", "To unit")
rf.reach = ProtoField.uint32("spindle_rel.reach", "Reach")
rf.base = ProtoField.uint64("spindle_rel.base", "All messages below are complete")
rf.entries = ProtoField.uint16("spindle_rel.entries", "Entries")
rf.repaired_runs = ProtoField.uint16("spindle_rel.repaired_runs", "Repaired runs")
rf.repaired = ProtoField.uint32("spindle_rel.repaired", "Repaired units")
rf.entry = ProtoField.none("spindle_rel.entry", "Entry")
rf.message = ProtoField.uint64("spindle_rel.entry.message", "Message")
rf.below = ProtoField.uint32("spindle_rel.entry.below", "All units below have come")
rf.first = ProtoField.uint32("spindle_rel.entry.first", "First unit of the bitmap")
rf.bytes = ProtoField.uint16("spindle_rel.entry.bytes", "Bytes of bitmap")
rf.entry_flags = ProtoField.uint8("spindle_rel.entry.flags", "Flags", base.HEX)
rf.refused = ProtoField.bool("spindle_rel.entry.refused", "Refused", 8, nil, 0x01)
rf.reason = ProtoField.uint8("spindle_rel.entry.reason", "Reason of the refusal")
rf.bitmap = ProtoField.bytes("spindle_rel.entry.bitmap", "Bitmap")
local rel_short = ProtoExpert.new("spindle_rel.short", "Shorter than it says", expert.group.MALFORMED,
	expert.severity.ERROR)
rel.experts = { rel_short }

local function add(tree, field, tvb, at, bytes)
	return tree:add(field, tvb(at, bytes))
end

local function rel_entry(tvb, at, tree)
	if tvb:len() < at + 24 then
		return nil
	end
	local bytes = tvb(at + 16, 2):uint()
	if tvb:len() < at + 24 + bytes then
		return nil
	end
	local refused = tvb(at + 18, 1):bitfield(7) == 1
	local entry = add(tree, rf.entry, tvb, at, 24 + bytes)
	entry:append_text(string.format(": message %s, %s", tvb(at, 8):uint64(),
		refused and "refused" or string.format("all units below %d", tvb(at + 8, 4):uint())))
	add(entry, rf.message, tvb, at, 8)
	add(entry, rf.below, tvb, at + 8, 4)
	add(entry, rf.first, tvb, at + 12, 4)
	add(entry, rf.bytes, tvb, at + 16, 2)
	local flags = add(entry, rf.entry_flags, tvb, at + 18, 1)
	add(flags, rf.refused, tvb, at + 18, 1)
	if refused then
		add(entry, rf.reason, tvb, at + 19, 1)
	end
	if bytes > 0 then
		add(entry, rf.bitmap, tvb, at + 24, bytes)
	end
	return at + 24 + bytes
end

-- True: the bytes are a reliability datagram.
local function rel_is(tvb)
	return tvb:len() >= 16 and tvb(0, 4):string() == "SPRL"
end

local function rel_text(tvb)
	return string.format("%s %s", rel_types[tvb(5, 1):uint()] or "?", tvb(8, 8):uint64())
end

function rel.dissector(tvb, pinfo, root)
	if not rel_is(tvb) then
		return 0
	end
	local tree = root:add(rel, tvb())
	local kind = tvb(5, 1):uint()
	tree:append_text(", " .. rel_text(tvb))
	add(tree, rf.magic, tvb, 0, 4)
	add(tree, rf.version, tvb, 4, 1)
	add(tree, rf.type, tvb, 5, 1)
	add(add(tree, rf.flags, tvb, 6, 1), rf.unasked, tvb, 6, 1)
	add(tree, rf.poll, tvb, 8, 8)
	if tvb:len() < (kind == 1 and 40 or 56) then
		tree:add_proto_expert_info(rel_short)
		return tvb:len()
	end
	if kind == 1 then
		add(tree, rf.begin, tvb, 16, 8)
		add(tree, rf.from_message, tvb, 24, 8)
		add(tree, rf.from_unit, tvb, 32, 4)
		add(tree, rf.reach, tvb, 36, 4)
	elseif kind == 2 then
		add(tree, rf.base, tvb, 16, 8)
		add(tree, rf.from_message, tvb, 24, 8)
		add(tree, rf.to_message, tvb, 32, 8)
		add(tree, rf.from_unit, tvb, 40, 4)
		add(tree, rf.to_unit, tvb, 44, 4)
		add(tree, rf.entries, tvb, 48, 2)
		add(tree, rf.repaired_runs, tvb, 50, 2)
		add(tree, rf.repaired, tvb, 52, 4)
		local at = 56
		for _ = 1, tvb(48, 2):uint() do
			at = rel_entry(tvb, at, tree)
			if not at then
				tree:add_proto_expert_info(rel_short)
				break
			end
		end
	end
	return tvb:len()
end

-- ---- SDR's control datagrams --------------------------------------------------------------------------------------
local sdr = Proto("spindle_sdr", "Spindle SDR Control")
local sdr_types = { [1] = "clear to send", [2] = "ended", [3] = "datagram", [4] = "probe", [5] = "alive" }
local sf = sdr.fields
sf.magic = ProtoField.string("spindle_sdr.magic", "Magic")
sf.version = ProtoField.uint8("spindle_sdr.version", "Version")
sf.type = ProtoField.uint8("spindle_sdr.type", "Type", base.DEC, sdr_types)
sf.length = ProtoField.uint16("spindle_sdr.length", "Length")
sf.to = ProtoField.uint64("spindle_sdr.to", "Nonce of the receiver", base.HEX)
sf.from = ProtoField.uint64("spindle_sdr.from", "Nonce of the sender", base.HEX)
sf.count = ProtoField.uint64("spindle_sdr.count", "Messages")
sf.data = ProtoField.bytes("spindle_sdr.data", "Application's bytes")

function sdr.dissector(tvb, pinfo, root)
	local kind = tvb(5, 1):uint()
	local tree = root:add(sdr, tvb())
	tree:append_text(", " .. (sdr_types[kind] or "unknown"))
	pinfo.cols.info:append(" SDR " .. (sdr_types[kind] or "control"))
	add(tree, sf.magic, tvb, 0, 4)
	add(tree, sf.version, tvb, 4, 1)
	add(tree, sf.type, tvb, 5, 1)
	add(tree, sf.length, tvb, 6, 2)
	add(tree, sf.to, tvb, 8, 8)
	add(tree, sf.from, tvb, 16, 8)
	if (kind == 1 or kind == 2) and tvb:len() >= 32 then
		add(tree, sf.count, tvb, 24, 8)
	elseif kind == 3 then
		local length = math.min(tvb(6, 2):uint(), tvb:len())
		if length > 24 then
			local data = tvb(24, length - 24):tvb()
			if rel_is(data) then
				pinfo.cols.info:append(", " .. rel_text(data))
				rel.dissector(data, pinfo, root)
			else
				add(tree, sf.data, tvb, 24, length - 24)
			end
		end
	end
end

-- ---- RVMA -----------------------------------------------------------------------------------------------------------
local rvma = Proto("rvma", "Remote Virtual Memory Access")
local opcodes = {
	[0xC0] = "PUT", [0xC1] = "GET", [0xC2] = "DATA", [0xC3] = "POLL", [0xC4] = "ACK",
	[0xC5] = "NACK", [0xC6] = "HELLO", [0xC7] = "WELCOME", [0xC8] = "BYE",
}
local header_bytes = { 56, 64, 40, 8, 8, 24, 40, 40, 16 } -- of 0xC0 and on
local statuses = {
	[0] = "delivered", [1] = "no such mailbox", [2] = "no buffer", [3] = "wrong key", [4] = "closed",
	[5] = "too large",
	[6] = "bad range", [7] = "wrong mode", [8] = "over the rate", [9] = "not complete", [10] = "not readable",
	[11] = "no room", [12] = "rewound", [13] = "given up",
}
local f = rvma.fields
f.opcode = ProtoField.uint8("rvma.opcode", "Opcode", base.HEX, opcodes)
f.bth_flags = ProtoField.uint8("rvma.bth.flags", "BTH flags", base.HEX)
f.pad = ProtoField.uint8("rvma.bth.padcnt", "Pad count", base.DEC, nil, 0x30)
f.pkey = ProtoField.uint16("rvma.bth.p_key", "Partition key", base.HEX)
f.qp = ProtoField.uint24("rvma.bth.destqp", "Destination queue pair", base.HEX)
f.psn = ProtoField.uint24("rvma.bth.psn", "Packet sequence number")
f.token = ProtoField.uint64("rvma.token", "Token", base.HEX)
f.transfer = ProtoField.uint64("rvma.transfer", "Transfer (its first block)")
f.packet = ProtoField.uint32("rvma.packet", "Packet of the transfer")
f.version = ProtoField.uint8("rvma.version", "Version")
f.flags = ProtoField.uint8("rvma.flags", "Flags", base.HEX)
f.fence = ProtoField.bool("rvma.flags.fence", "Fence: after all earlier blocks", 8, nil, 0x01)
f.length = ProtoField.uint64("rvma.length", "Length of the transfer")
f.mailbox = ProtoField.uint64("rvma.mailbox", "Mailbox", base.HEX)
f.key = ProtoField.uint64("rvma.key", "Key", base.HEX)
f.offset = ProtoField.uint64("rvma.offset", "Offset in the buffer")
f.append = ProtoField.bool("rvma.append", "Appended: no offset")
f.back = ProtoField.uint32("rvma.back", "Epochs back")
f.get = ProtoField.uint64("rvma.get", "Transfer number of the get")
f.blocks = ProtoField.uint32("rvma.blocks", "Blocks that may have been seen")
f.reason = ProtoField.uint8("rvma.reason", "Reason", base.DEC, statuses)
f.hello_qp = ProtoField.uint32("rvma.hello.qp", "Queue pair of its sender", base.HEX)
f.mtu = ProtoField.uint32("rvma.hello.mtu", "Bytes of payload it takes")
f.window = ProtoField.uint32("rvma.hello.window", "Blocks ahead it takes")
f.nonce = ProtoField.uint64("rvma.nonce", "Nonce of its sender's session", base.HEX)
f.echo = ProtoField.uint64("rvma.hello.echo", "Answers the nonce", base.HEX)
f.payload = ProtoField.bytes("rvma.payload", "Payload")
f.icrc = ProtoField.uint32("rvma.icrc", "Invariant CRC", base.HEX)
local short = ProtoExpert.new("rvma.short", "Shorter than its header", expert.group.MALFORMED, expert.severity.ERROR)
local bad_version = ProtoExpert.new("rvma.bad_version", "Not version 1", expert.group.PROTOCOL, expert.severity.WARN)
local not_zero = ProtoExpert.new("rvma.not_zero", "Reserved bytes are not zero", expert.group.PROTOCOL,
	expert.severity.WARN)
rvma.experts = { short, bad_version, not_zero }

local append = UInt64(0xFFFFFFFF, 0xFFFFFFFF)

local function add_version(tree, tvb, at)
	local item = add(tree, f.version, tvb, at, 1)
	if tvb(at, 1):uint() ~= 1 then
		item:add_proto_expert_info(bad_version)
	end
end

local function add_zero(tree, tvb, at, bytes)
	for i = at, at + bytes - 1 do
		if tvb(i, 1):uint() ~= 0 then
			tree:add_tvb_expert_info(not_zero, tvb(at, bytes))
			return
		end
	end
end

-- The common beginning of PUT, GET and DATA.
local function add_head(tree, tvb)
	add(tree, f.token, tvb, 0, 8)
	add(tree, f.transfer, tvb, 8, 8)
	add(tree, f.packet, tvb, 16, 4)
	add_version(tree, tvb, 20)
	add(add(tree, f.flags, tvb, 21, 1), f.fence, tvb, 21, 1)
	add_zero(tree, tvb, 22, 2)
	add(tree, f.length, tvb, 24, 8)
	return string.format("transfer %s packet %d, %s bytes", tvb(8, 8):uint64(), tvb(16, 4):uint(),
		tvb(24, 8):uint64())
end

local function add_place(tree, tvb)
	add(tree, f.mailbox, tvb, 32, 8)
	add(tree, f.key, tvb, 40, 8)
	return ", mailbox 0x" .. tvb(32, 8):uint64():tohex()
end

local bodies = {
	[0xC0] = function(tree, tvb)
		local text = add_head(tree, tvb) .. add_place(tree, tvb)
		add(tree, f.offset, tvb, 48, 8)
		local appended = tvb(48, 8):uint64() == append
		tree:add(f.append, tvb(48, 8), appended):set_generated()
		return text .. (appended and ", appended" or ", offset " .. tostring(tvb(48, 8):uint64()))
	end,
	[0xC1] = function(tree, tvb)
		local text = add_head(tree, tvb) .. add_place(tree, tvb)
		add(tree, f.offset, tvb, 48, 8)
		add(tree, f.back, tvb, 56, 4)
		add_zero(tree, tvb, 60, 4)
		return text .. string.format(", offset %s, %d back", tvb(48, 8):uint64(), tvb(56, 4):uint())
	end,
	[0xC2] = function(tree, tvb)
		local text = add_head(tree, tvb)
		add(tree, f.get, tvb, 32, 8)
		return text .. string.format(", for get %s", tvb(32, 8):uint64())
	end,
	[0xC3] = function(tree, tvb)
		add(tree, f.token, tvb, 0, 8)
	end,
	[0xC5] = function(tree, tvb)
		add(tree, f.token, tvb, 0, 8)
		add(tree, f.transfer, tvb, 8, 8)
		add(tree, f.blocks, tvb, 16, 4)
		add(tree, f.reason, tvb, 20, 1)
		add_zero(tree, tvb, 21, 3)
		return string.format("transfer %s: %s", tvb(8, 8):uint64(),
			statuses[tvb(20, 1):uint()] or "unknown reason")
	end,
	[0xC6] = function(tree, tvb)
		add_version(tree, tvb, 0)
		add_zero(tree, tvb, 1, 3)
		add(tree, f.hello_qp, tvb, 4, 4)
		add(tree, f.mtu, tvb, 8, 4)
		add(tree, f.window, tvb, 12, 4)
		add(tree, f.token, tvb, 16, 8)
		add(tree, f.nonce, tvb, 24, 8)
		add(tree, f.echo, tvb, 32, 8)
		return string.format("QP 0x%06x, mtu %d, window %d", tvb(4, 4):uint(), tvb(8, 4):uint(),
			tvb(12, 4):uint())
	end,
	[0xC8] = function(tree, tvb)
		add(tree, f.token, tvb, 0, 8)
		add(tree, f.nonce, tvb, 8, 8)
	end,
}
bodies[0xC4] = bodies[0xC3]
bodies[0xC7] = bodies[0xC6]

-- tvb: from the BTH to the ICRC, including both.
function rvma.dissector(tvb, pinfo, root)
	local opcode, pad = tvb(0, 1):uint(), tvb(1, 1):bitfield(2, 2)
	local name, header = opcodes[opcode], header_bytes[opcode - 0xBF]
	local tree = root:add(rvma, tvb())
	tree:append_text(", " .. name)
	pinfo.cols.protocol = "RVMA"
	pinfo.cols.info = name
	add(tree, f.opcode, tvb, 0, 1)
	add(add(tree, f.bth_flags, tvb, 1, 1), f.pad, tvb, 1, 1)
	add(tree, f.pkey, tvb, 2, 2)
	add(tree, f.qp, tvb, 5, 3)
	add(tree, f.psn, tvb, 9, 3)
	local inside = tvb:len() - 12 - 4 - pad
	if inside < header then
		tree:add_proto_expert_info(short)
		return tvb:len()
	end
	local text = bodies[opcode](tree, tvb(12, header):tvb())
	if inside > header then
		local rest = tvb(12 + header, inside - header):tvb()
		if (opcode == 0xC3 or opcode == 0xC4) and rel_is(rest) then
			text = rel_text(rest)
			rel.dissector(rest, pinfo, tree)
		else
			add(tree, f.payload, tvb, 12 + header, inside - header)
		end
	end
	add(tree, f.icrc, tvb, tvb:len() - 4, 4)
	if text then
		pinfo.cols.info:append(" " .. text)
	end
	return tvb:len()
end

-- ---- dispatch ------------------------------------------------------------------------------------------------------
local ports = DissectorTable.get("udp.port")
local stock = ports:get_dissector(roce_port)
local roce = Proto("spindle_roce", "Spindle on RoCEv2")

function roce.dissector(tvb, pinfo, root)
	if tvb:len() >= 16 and opcodes[tvb(0, 1):uint()] then
		return rvma.dissector(tvb, pinfo, root)
	end
	local used = 0
	if stock then -- Wireshark's dissector shows what it finds malformed
		local fine, n = pcall(stock.call, stock, tvb, pinfo, root)
		used = fine and n or tvb:len()
	end
	-- UC SEND Only, with our magic
	if tvb:len() >= 12 + 24 + 4 and tvb(0, 1):uint() == 0x24 and tvb(12, 4):string() == "SDRC" then
		local pad = tvb(1, 1):bitfield(2, 2)
		if tvb:len() - 16 - pad >= 24 then
			sdr.dissector(tvb(12, tvb:len() - 16 - pad):tvb(), pinfo, root)
		end
	end
	return used
end

ports:set(roce_port, roce)
