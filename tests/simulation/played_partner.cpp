#include "tests/simulation/played_partner.hpp"

#include <cstring>
#include <utility>

namespace lockstep::simulation {

using engine::Errc;
using engine::NodeSide;
using replication::Message;
using replication::MessageType;

PlayedPartner::PlayedPartner(ScriptedPair& pair, NodeSide side)
    : pair_(pair),
      side_(side),
      began_(pair.world().scheduler.now()),
      clock_then_(static_cast<Nanos>(pair.host(side).clock().now().since_origin.count())) {
  way_out().refuse([this](auto header) {
    process_ = replication::decode(header)->process;
    return false;
  });
  pair.wait_for([this] { return !process_.is_nil(); });
  way_out().refuse(nullptr);
  for (unsigned v = 0; v < pair.world().scenario.volumes.size(); ++v) {
    replication::ReplicaState& told = v == 0 ? state : others_.emplace_back();
    told.record = pair.host(side).status(v)->epoch;
    told.side = side;
    told.running = told.able = told.serving = true;
  }
  pair.host(side).end(Host::End::killed);
  start();
}

PlayedPartner::~PlayedPartner() { end(); }

void PlayedPartner::start() {
  way_in().receiver_started(*this, speaks());
  way_out().sender_started(*this, speaks());
  pair_.wait_for([this] { return in_touch(); });
}

void PlayedPartner::end() {
  way_out().sender_died(false);
  way_in().receiver_died(false);
  kept_.clear();
  greeted_ = false;
}

void PlayedPartner::restart() {
  end();
  process_.bytes[0] ^= 0xff;
  received_.clear();
  start();
}

void PlayedPartner::restart_unseen() {
  way_in().receiver_died(false);
  kept_.clear();
  process_.bytes[0] ^= 0xff;
  received_.clear();
  way_in().receiver_started(*this, speaks());
  pair_.wait_for([this] { return !received(MessageType::hello).empty(); });
}

// ---- what it says by itself ----------------------------------------------------------------------------------------

void PlayedPartner::on_link_up() {
  Message hello;
  hello.type = MessageType::hello;
  hello.epoch = pair_.world().scenario.pair;
  if (side_ == NodeSide::b) hello.flags = replication::kFlagSideB;
  hello.number = static_cast<std::uint64_t>(lease);
  hello.sequence = boot;
  send(hello);
  greeted_ = true;
}

void PlayedPartner::on_request(std::uint64_t, replication::InboundRequest& request) {
  const Message m = *replication::decode(request.header());
  received_.push_back(m);
  if (m.type == MessageType::propose) proposals.push_back(replication::decode_state(request.payload())->record);
  if (keeps(m)) return kept_.push_back({&request, m});
  answer(request, m, says(m));
}

void PlayedPartner::let_go(Errc status) {
  for (const Kept& kept : std::exchange(kept_, {})) answer(*kept.request, kept.message, status);
}

void PlayedPartner::let_go_first(Errc status) {
  const Kept kept = kept_.front();
  kept_.erase(kept_.begin());
  answer(*kept.request, kept.message, status);
}

void PlayedPartner::answer(replication::InboundRequest& request, const Message& question, Errc status) {
  Message header;
  header.type = question.type;
  header.answer = true;
  header.volume = question.volume;
  header.status = status;
  header.process = process_;
  header.stamp = static_cast<std::uint64_t>(clock_then_ + pair_.world().scheduler.now() - began_ + clock_ahead) + 1;
  if (question.type == MessageType::hello) {
    header.number = static_cast<std::uint64_t>(lease);
    header.sequence = boot;
  }
  std::vector<std::byte> payload;
  if (question.type == MessageType::heartbeat) payload.assign(request.payload().size() / 32, std::byte{grants_leases});
  if (question.type == MessageType::state) {
    payload = replication::encode_state(state_of(question.volume));
    header.extent.length = pair_.world().scenario.volume_size();
    header.tag = generation;
  }
  if (question.type == MessageType::generation) header.tag = generation;
  if (question.type == MessageType::reserve) header.extent = question.extent;
  if (question.type == MessageType::map) payload.resize(question.extent.length * 8);
  amends(question, header, payload);
  answer_with(request, header, std::move(payload));
}

const replication::ReplicaState& PlayedPartner::state_of(const engine::Uuid& volume) const {
  const auto& volumes = pair_.world().scenario.volumes;
  for (std::size_t i = 0; i < others_.size(); ++i) {
    if (volumes[i + 1].id == volume) return others_[i];
  }
  return state;
}

void PlayedPartner::answer_with(replication::InboundRequest& request, Message header, std::vector<std::byte> payload) {
  header.payload = static_cast<std::uint32_t>(payload.size());
  auto keep = std::make_unique<std::vector<std::byte>>(std::move(payload));
  const std::span<const std::byte> bytes = *keep;
  request.answer(replication::encode(header), bytes, [keep = std::move(keep)] {});
}

// ---- what the test has it say --------------------------------------------------------------------------------------

Message PlayedPartner::message(MessageType type) const {
  Message m;
  m.type = type;
  m.volume = pair_.world().scenario.volumes[0].id;
  m.epoch = state.record.id;
  m.number = state.record.number;
  return m;
}

PlayedPartner::Exchange& PlayedPartner::send(Message message, std::vector<std::byte> out, std::size_t room) {
  Exchange& exchange = exchanges_.emplace_back();
  exchange.out = std::move(out);
  exchange.in.resize(room);
  message.process = process_;
  message.payload = static_cast<std::uint32_t>(exchange.out.size());
  way_out().send(replication::encode(message), exchange.out, exchange.in, [&exchange](const auto& result) {
    exchange.done = true;
    if (result) exchange.answer = *replication::decode(result->header);
  });
  return exchange;
}

PlayedPartner::Exchange& PlayedPartner::ask(const Message& message, std::vector<std::byte> out, std::size_t room) {
  Exchange& exchange = send(message, std::move(out), room);
  pair_.wait_for([&] { return exchange.done; });
  return exchange;
}

PlayedPartner::Exchange& PlayedPartner::tell_state() {
  Message m = message(MessageType::state);
  m.extent.length = pair_.world().scenario.volume_size();
  m.tag = generation;
  m.sequence = knows_generation;
  return ask(m, replication::encode_state(state), replication::kMaxStateBytes);
}

PlayedPartner::Exchange& PlayedPartner::propose(const engine::EpochRecord& next, const engine::Uuid& base) {
  replication::ReplicaState carried;
  carried.record = next;
  carried.side = side_;
  Message m = message(MessageType::propose);
  m.epoch = base;
  return send(m, replication::encode_state(carried));
}

PlayedPartner::Exchange& PlayedPartner::send_unit_state(const scsi::LuState& unit,
                                                        std::span<const scsi::LuEvent> events, std::uint16_t flags) {
  std::vector<std::byte> bytes = unit.encode();
  const auto encoded = scsi::encode_events(events);
  Message m = message(MessageType::lu_state);
  m.sequence = unit.version;
  m.extent = {bytes.size(), encoded.size()};
  m.flags = replication::kFlagAgree | flags;
  bytes.insert(bytes.end(), encoded.begin(), encoded.end());
  return send(m, std::move(bytes), scsi::kMaxLuState);
}

PlayedPartner::Exchange& PlayedPartner::change_unit_state(const scsi::LuState& unit) {
  std::vector<std::byte> bytes = unit.encode();
  const auto none = scsi::encode_events({});
  Message m = message(MessageType::lu_state);
  m.sequence = unit.version;
  m.extent = {bytes.size(), none.size()};
  bytes.insert(bytes.end(), none.begin(), none.end());
  return ask(m, std::move(bytes), scsi::kMaxLuState);
}

PlayedPartner::Exchange& PlayedPartner::tell_unit_state(const scsi::LuState& unit) {
  Exchange& exchange = send_unit_state(unit);
  pair_.wait_for([&] { return exchange.done; });
  return exchange;
}

bool PlayedPartner::is_granted(const engine::Uuid& epoch) {
  std::vector<std::byte> ids(32);
  std::memcpy(ids.data(), pair_.world().scenario.volumes[0].id.bytes.data(), 16);
  std::memcpy(ids.data() + 16, epoch.bytes.data(), 16);
  Message m;
  m.type = MessageType::heartbeat;
  return ask(m, std::move(ids), 1).in[0] == std::byte{1};
}

std::uint64_t PlayedPartner::stamp() {
  Message m;
  m.type = MessageType::heartbeat;
  const Exchange& beat = ask(m);
  return beat.answer ? beat.answer->stamp : 0;
}

std::vector<Message> PlayedPartner::received(MessageType type) const {
  std::vector<Message> all;
  for (const Message& m : received_) {
    if (m.type == type) all.push_back(m);
  }
  return all;
}

}  // namespace lockstep::simulation
