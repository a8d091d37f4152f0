#include "tests/unit/iser/iser_initiator.hpp"

#include <algorithm>

#include "engine/base/copy_bytes.hpp"

namespace lockstep::test {

using iscsi::Opcode;

namespace {

class GrantedMemory final : public SharedMemory {
 public:
  explicit GrantedMemory(FakeFabric& fabric) : fabric_(fabric) {}
  [[nodiscard]] rdma::Domain domain() const override { return rdma::Domain::initiators; }
  [[nodiscard]] rdma::Remote open(rdma::QueuePair&, std::span<std::byte> memory, rdma::Access access) override {
    return fabric_.grant(domain(), memory, access == rdma::Access::read, access == rdma::Access::write);
  }
  void shut(rdma::QueuePair*, std::uint32_t key) override {
    if (fabric_.is_granted(key)) fabric_.revoke(key);
  }

 private:
  FakeFabric& fabric_;
};

}  // namespace

IserInitiator::IserInitiator(FakeFabric& fabric, engine::Clock& clock, engine::BufferPool& pool, Options options)
    : IserInitiator(fabric, fabric.attach(clock), std::make_unique<GrantedMemory>(fabric), pool, std::move(options)) {}

IserInitiator::IserInitiator(rdma::Fabric& fabric, std::unique_ptr<rdma::Completions> completions,
                             std::unique_ptr<SharedMemory> shared, engine::BufferPool& pool, Options options)
    : fabric_(fabric),
      shared_(std::move(shared)),
      pool_(pool),
      options_(std::move(options)),
      completions_(std::move(completions)),
      receives_(pool.allocate(kReceives * kReceive)) {}

IserInitiator::~IserInitiator() {
  for (auto& [tag, io] : ios_) shut(io);
}

void IserInitiator::shut(const Io& io) {
  if (io.key) shared_->shut(closed_ ? nullptr : pair_.get(), *io.key);
}

void IserInitiator::call(const std::string& address) {
  closed_ = false;
  const std::uint32_t windows = shared_->domain() == rdma::Domain::link ? 128 : 0;
  pair_ = fabric_.connect(*completions_, shared_->domain(), options_.from, address,
                          {.sends = 512, .receives = kReceives, .reads = 16, .max_inline = 0, .windows = windows},
                          iser::private_data(options_.invalidates), *this);
  for (std::uint32_t slot = 0; slot < kReceives; ++slot) post(slot);
}

void IserInitiator::post(std::uint32_t slot) {
  const auto memory = receives_.span().subspan(slot * kReceive, kReceive);
  const std::size_t data = logged_in_ ? 128 : 8192;
  pair_->receive(memory.first(iser::kHeadersSize), memory.subspan(4096, data), slot);
}

void IserInitiator::on_established(std::span<const std::byte> private_data) {
  target_invalidates_ = iser::takes_invalidation(private_data);
  if (!options_.logs_in) return;
  iscsi::InitiatorLoginSettings settings;
  settings.initiator_name = "iqn.2026-11.io.lockstep:initiator";
  settings.isid.back() = options_.port;
  if (!options_.discovers) settings.target_name = options_.target;
  settings.offers = iscsi::rdma_offers({});
  settings.offers.initiator_segment = 262144;
  login_.emplace(settings, random_);
  log_in(login_->start());
}

void IserInitiator::log_in(iscsi::InitiatorLogin::Step step) {
  if (step.next == iscsi::InitiatorLogin::Step::Next::failed) {
    login_error = step.error.message;
    return;
  }
  if (step.next == iscsi::InitiatorLogin::Step::Next::send) {
    return send(bytes_of(step.header), {}, std::as_bytes(std::span(step.text)));
  }
  parameters = login_->parameters();
  cmd_sn = login_->cmd_sn();
  max_cmd_sn = login_->max_cmd_sn();
  logged_in_ = true;
}

bool IserInitiator::has_window() const { return !cmd_sn.after(max_cmd_sn); }

void IserInitiator::send(iscsi::Bhs header, const iser::Tagged& tagged, std::span<const std::byte> data,
                         std::span<const std::byte> ahs) {
  auto any = iscsi::header_as<iscsi::AnyHeader>(header);
  any.data_length = static_cast<std::uint32_t>(data.size());
  any.ahs_words = static_cast<std::uint8_t>(ahs.size() / 4);
  header = bytes_of(any);
  std::vector<std::byte> bytes(iser::kHeaderSize);
  iser::write_header(tagged, bytes);
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), ahs.begin(), ahs.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  bytes.resize(bytes.size() + iscsi::padding_of(data.size()));
  send_raw(bytes);
}

void IserInitiator::send_raw(std::span<const std::byte> bytes) {
  engine::Buffer buffer = pool_.allocate(bytes.size());
  engine::copy_bytes(bytes, buffer.span());
  const std::span<const std::byte> piece = buffer.span();
  pair_->send({.pieces = std::span(&piece, 1), .invalidates = {}, .id = ++last_send_});
  sends_.emplace(last_send_, std::move(buffer));
}

std::uint32_t IserInitiator::command(std::uint8_t opcode, std::uint32_t lba, std::uint32_t bytes, bool write,
                                     engine::Buffer memory, std::function<void(const Answer&)> done) {
  auto header = iscsi::make_header<iscsi::ScsiCommandHeader>(Opcode::scsi_command, iscsi::kFinal);
  header.flags |= bytes == 0 ? 0 : write ? iscsi::kWrite : iscsi::kRead;
  header.task_tag = next_tag;
  header.expected_length = bytes;
  header.cmd_sn = cmd_sn.value();
  header.cdb[0] = opcode;
  engine::store_be<std::uint32_t>(&header.cdb[2], lba);
  engine::store_be<std::uint16_t>(&header.cdb[7], static_cast<std::uint16_t>(bytes / 512));
  ++cmd_sn;
  Io& io = ios_[next_tag];
  io = {.write = write, .bytes = bytes, .memory = std::move(memory), .key = {}, .done = std::move(done)};
  iser::Tagged tagged;
  std::span<const std::byte> immediate;
  if (write) immediate = io.memory.span().first(std::min(bytes, options_.immediate));
  if (write && bytes > immediate.size()) {
    // The whole of it is registered; the address is that of what does not come with the command.
    tagged.write = shared_->open(*pair_, io.memory.span().first(bytes), rdma::Access::read);
    io.key = tagged.write->key;
    tagged.write->address += immediate.size();
  } else if (!write && bytes != 0) {
    tagged.read = shared_->open(*pair_, io.memory.span().first(bytes), rdma::Access::write);
    io.key = tagged.read->key;
  }
  send(bytes_of(header), tagged, immediate);
  return next_tag++;
}

void IserInitiator::forget(std::uint32_t tag) {
  Io& io = ios_.at(tag);
  shut(io);
  ios_.erase(tag);
}

void IserInitiator::on_completion(const rdma::Completion& completion) {
  if (completion.error || completion.work == rdma::Work::hide) return;
  if (completion.work == rdma::Work::send) {
    sends_.erase(completion.id);
    return;
  }
  const auto slot = static_cast<std::uint32_t>(completion.id);
  const auto memory = receives_.span().subspan(slot * kReceive, kReceive);
  const auto message = iser::read_message(memory.first(iser::kHeadersSize), completion.bytes);
  if (!message) {
    faults.push_back("The target sent what is no message: " + message.error().message() + ".");
  } else {
    Answer answer{.header = message->header, .data = {}, .invalidated = completion.invalidated};
    const auto data = memory.subspan(4096 + message->ahs, message->data);
    answer.data.assign(data.begin(), data.end());
    if (message->tagged != iser::Tagged{}) faults.push_back("The target told keys of its own.");
    take(answer);
  }
  if (!lost_ && pair_ && !closed_) post(slot);
}

void IserInitiator::take(const Answer& answer) {
  if (answer.opcode() == Opcode::login_response) {
    return log_in(login_->on_response(answer.as<iscsi::LoginResponseHeader>(), answer.data));
  }
  const auto numbers = answer.as<iscsi::NopInHeader>();  // they stand at one place in all
  if (iscsi::Serial(numbers.max_cmd_sn).after(max_cmd_sn)) max_cmd_sn = iscsi::Serial(numbers.max_cmd_sn);
  if (answer.opcode() == Opcode::scsi_response) return answered(answer);
  if (answer.opcode() == Opcode::scsi_data_in || answer.opcode() == Opcode::r2t) {
    faults.push_back("The target moves data by PDUs.");
  }
  if (answer.opcode() == Opcode::nop_in && numbers.task_tag == iscsi::kReservedTag) return answer_ping(numbers);
  if (on_other) on_other(answer);
}

void IserInitiator::answer_ping(const iscsi::NopInHeader& ping) {
  auto header = iscsi::make_header<iscsi::NopOutHeader>(Opcode::nop_out, iscsi::kFinal);
  header.opcode |= iscsi::kImmediate;
  header.task_tag = iscsi::kReservedTag;
  header.transfer_tag = ping.transfer_tag;
  header.cmd_sn = cmd_sn.value();
  if (!closed_) send(bytes_of(header));
}

// As ib_iser: a key that the task has not ends the connection, and so does one that it did not ask to have invalidated.
void IserInitiator::answered(const Answer& answer) {
  const auto response = answer.as<iscsi::ScsiResponseHeader>();
  const auto at = ios_.find(response.task_tag);
  if (at == ios_.end()) return faults.push_back("An answer to no command.");
  Io io = std::move(at->second);
  ios_.erase(at);
  const bool wants = options_.invalidates && target_invalidates_ && io.key;
  if (wants != answer.invalidated.has_value())
    faults.push_back("A key was invalidated that was not to be, or was not.");
  if (answer.invalidated && answer.invalidated != io.key) faults.push_back("Another task's key was invalidated.");
  if (answer.invalidated != io.key) shut(io);
  const auto done = std::move(io.done);
  ios_[response.task_tag] = std::move(io);  // its memory is looked at
  done(answer);
  ios_.erase(response.task_tag);
}

void IserInitiator::on_lost(std::error_code) {
  lost_ = true;
  close();
}

void IserInitiator::close() {
  if (closed_) return;
  closed_ = true;
  pair_->close([this] { sends_.clear(); });
}

}  // namespace lockstep::test
