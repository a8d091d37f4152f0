#include "tests/simulation/fake_program.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "tests/simulation/stamp.hpp"

namespace lockstep::simulation {

namespace {

using engine::DiskOpcode;
using engine::DiskRequest;
using engine::Errc;

struct SharedDisk {
  explicit SharedDisk(std::uint64_t size) : bytes(size), before(size) {}
  std::vector<std::byte> bytes;
  std::vector<std::byte> before;  ///< each block as it was before its last write
};

struct Shared {
  FakeFlaw flaw;
  std::vector<SharedDisk> disks;
};

class FakeDisk final : public engine::Disk {
 public:
  FakeDisk(Machine& machine, Shared& shared, unsigned volume) : machine_(machine), shared_(shared), volume_(volume) {}
  [[nodiscard]] const engine::DiskInfo& info() const override { return machine_.scenario.volumes[volume_]; }
  [[nodiscard]] engine::AccessState access_state() const override { return engine::AccessState::active_optimized; }

  void submit(DiskRequest& request) override {
    request.holder = this;
    Nanos took = machine_.random.skewed(10 * kMicrosecond, 5 * kMillisecond);
    // Where hosts lose patience, something must take long.
    if (machine_.scenario.hosts.impatient && machine_.random.chance(20'000)) took = machine_.random.below(12 * kSecond);
    begun_[&request] = {machine_.scheduler.now(), false};
    if (shared_.flaw == FakeFlaw::refuses) {
      request.status = Errc::io_error;
      return machine_.scheduler.after(took, machine_.owner, &FakeDisk::on_done, &request);
    }
    const Nanos effect = machine_.random.below(took + 1);
    if (shared_.flaw == FakeFlaw::torn_compare && request.opcode == DiskOpcode::compare_and_write) {
      machine_.scheduler.after(effect, machine_.owner, &FakeDisk::on_look, &request);
      machine_.scheduler.after(effect + 2 * kMillisecond, machine_.owner, &FakeDisk::on_put, &request);
      machine_.scheduler.after(took + 3 * kMillisecond, machine_.owner, &FakeDisk::on_done, &request);
      return;
    }
    if (shared_.flaw == FakeFlaw::late_effect && request.opcode == DiskOpcode::write &&
        machine_.random.chance(50'000)) {
      keep_for_later(request);
    }
    machine_.scheduler.after(effect, machine_.owner, &FakeDisk::on_effect, &request);
    machine_.scheduler.after(took, machine_.owner, &FakeDisk::on_done, &request);
  }

  void cancel(DiskRequest& request) override {
    begun_[&request].cancelled = true;
    if (shared_.flaw == FakeFlaw::ignores_cancel && request.opcode == DiskOpcode::write) keep_for_later(request);
  }

 private:
  struct Begun {
    Nanos at = 0;
    bool cancelled = false;
  };

  /// Nothing of it may happen any more.
  [[nodiscard]] bool is_over(DiskRequest& r) {
    const Begun& begun = begun_[&r];
    const bool old = machine_.scheduler.now() - begun.at > machine_.scenario.lease * 6 / 5;
    return begun.cancelled || (old && shared_.flaw != FakeFlaw::ignores_age);
  }
  struct Later {
    SharedDisk* disk;
    std::uint64_t offset;
    std::vector<std::byte> bytes;
  };

  SharedDisk& disk() { return shared_.disks[volume_]; }
  static FakeDisk& of(void* request) { return *static_cast<FakeDisk*>(static_cast<DiskRequest*>(request)->holder); }

  void keep_for_later(const DiskRequest& r) {
    auto* later = new Later{&disk(), r.extent.offset, {r.data.begin(), r.data.end()}};
    machine_.scheduler.after(machine_.random.below(kSecond), Owner::world, &FakeDisk::on_later, later);
  }
  static void on_later(void* context, std::uint64_t) {
    const std::unique_ptr<Later> later(static_cast<Later*>(context));
    std::memcpy(later->disk->bytes.data() + later->offset, later->bytes.data(), later->bytes.size());
  }

  static void on_look(void* context, std::uint64_t) {
    auto& r = *static_cast<DiskRequest*>(context);
    of(context).compare(r);
  }
  static void on_put(void* context, std::uint64_t) {
    auto& r = *static_cast<DiskRequest*>(context);
    if (!r.status) of(context).put(r.extent.offset, r.data.subspan(r.extent.length));
  }
  static void on_effect(void* context, std::uint64_t) { of(context).carry_out(*static_cast<DiskRequest*>(context)); }
  static void on_done(void* context, std::uint64_t) {
    auto& r = *static_cast<DiskRequest*>(context);
    of(context).begun_.erase(&r);
    r.done(r);
  }

  void compare(DiskRequest& r) {
    const auto expected = r.data.first(r.extent.length);
    const auto here = std::span(disk().bytes).subspan(r.extent.offset, r.extent.length);
    const auto differs = std::mismatch(expected.begin(), expected.end(), here.begin());
    if (differs.first == expected.end()) return;
    r.status = Errc::miscompare;
    r.miscompare_offset = static_cast<std::uint64_t>(differs.first - expected.begin());
  }

  void put(std::uint64_t offset, std::span<const std::byte> from) {
    SharedDisk& d = disk();
    std::memcpy(d.before.data() + offset, d.bytes.data() + offset, from.size());
    std::memcpy(d.bytes.data() + offset, from.data(), from.size());
  }

  void carry_out(DiskRequest& r) {
    if (machine_.scenario.hosts.impatient || begun_[&r].cancelled) {
      if (is_over(r)) return void(r.status = Errc::aborted);
    }
    const std::uint64_t size = disk().bytes.size();
    std::uint64_t offset = r.extent.offset;
    const bool rarely = machine_.random.chance(20'000);
    switch (r.opcode) {
      case DiskOpcode::read: {
        const auto& from = shared_.flaw == FakeFlaw::reads_old && rarely ? disk().before : disk().bytes;
        std::memcpy(r.data.data(), from.data() + offset, r.extent.length);
        break;
      }
      case DiskOpcode::write:
        if (shared_.flaw == FakeFlaw::loses_writes && rarely) break;
        if (shared_.flaw == FakeFlaw::misplaces && rarely && r.extent.end() < size) offset += kBlock;
        put(offset, r.data);
        break;
      case DiskOpcode::write_same:
        for (std::uint64_t at = 0; at < r.extent.length; at += kBlock) put(offset + at, r.data);
        break;
      case DiskOpcode::write_zeroes:
      case DiskOpcode::unmap:
        put(offset, std::vector<std::byte>(r.extent.length));
        break;
      case DiskOpcode::compare_and_write:
        compare(r);
        if (!r.status) put(offset, r.data.subspan(r.extent.length));
        break;
      case DiskOpcode::flush:
      case DiskOpcode::verify:
      case DiskOpcode::change_state:
      case DiskOpcode::read_state:
      case DiskOpcode::check_access:
      case DiskOpcode::find_run:
      case DiskOpcode::renew_key:
        break;
    }
  }

  Machine& machine_;
  Shared& shared_;
  unsigned volume_;
  std::map<DiskRequest*, Begun> begun_;  ///< never walked
};

class FakeProgram final : public Program, private replication::LinkEvents {
 public:
  FakeProgram(Machine& machine, std::shared_ptr<Shared> shared) : machine_(machine), shared_(std::move(shared)) {
    for (unsigned v = 0; v < machine.scenario.volumes.size(); ++v) {
      disks_.push_back(std::make_unique<FakeDisk>(machine, *shared_, v));
    }
  }
  void start() override {}
  engine::Disk* disk(unsigned volume) override { return disks_[volume].get(); }
  std::optional<replication::VolumeStatus> status(unsigned volume) override {
    replication::VolumeStatus s;
    s.volume = machine_.scenario.volumes[volume].id;
    s.state = replication::MirrorState::in_sync;
    s.serving = true;
    s.epoch.members = engine::MemberSet::both();
    return s;
  }
  replication::LinkEvents& link_events() override { return *this; }
  void leave(unsigned, Said) override {}
  void make_room(unsigned, std::uint64_t, engine::Callback<engine::Result<void>> done) override { done({}); }
  void want_size(unsigned, std::uint64_t) override {}
  void take_size(unsigned, std::uint64_t) override {}
  void shutdown(engine::Callback<> done) override {
    done_ = std::move(done);
    machine_.scheduler.after(kMillisecond, machine_.owner, &FakeProgram::on_stopped, this);
  }

 private:
  static void on_stopped(void* self, std::uint64_t) { static_cast<FakeProgram*>(self)->done_(); }
  void on_link_up() override {}
  void on_link_down() override {}
  void on_inbound_up(std::uint64_t) override {}
  void on_inbound_down(std::uint64_t) override {}
  void on_request(std::uint64_t, replication::InboundRequest&) override {}

  Machine& machine_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::unique_ptr<FakeDisk>> disks_;
  engine::Callback<> done_;
};

}  // namespace

ProgramKind fake_program(FakeFlaw flaw) {
  auto shared = std::make_shared<Shared>(Shared{flaw, {}});
  ProgramKind kind;
  kind.metadata_size = [](const Scenario&) { return std::uint64_t{4096}; };
  kind.format = [shared](Machine& m) {
    if (!shared->disks.empty()) return;
    for (const auto& disk : m.scenario.volumes) shared->disks.emplace_back(disk.size);
  };
  kind.start = [shared](Machine& m) -> std::unique_ptr<Program> { return std::make_unique<FakeProgram>(m, shared); };
  kind.corruption_probe = [](Machine&, unsigned, SimRandom&) -> std::optional<std::string> { return std::nullopt; };
  kind.replicates = false;
  kind.keeps_state = false;
  kind.grows = false;
  kind.changes_arbiter = false;
  kind.changes_lease = false;
  return kind;
}

}  // namespace lockstep::simulation
