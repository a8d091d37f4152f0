#include "mgmt/data_plane/rpc_methods.hpp"

#include <array>
#include <charconv>

#include "mgmt/data_plane/fields.hpp"
#include "mgmt/data_plane/witness_question.hpp"

namespace lockstep::data_plane {

using engine::Result;
using engine::Uuid;
using nlohmann::json;

namespace {

struct VolumeParams {
  Uuid volume;
  bool accept_inconsistent = false;
};

std::expected<VolumeParams, RpcError> read_volume_params(const json& params, bool force) {
  FieldProblem problem;
  Fields fields(params, "params", problem);
  VolumeParams read;
  read.volume = fields.uuid("volume");
  if (force) read.accept_inconsistent = fields.flag_or("accept_inconsistent", false);
  fields.end();
  if (problem.found()) return std::unexpected(problem.error());
  return read;
}

json problems_json(const std::vector<Problem>& problems) {
  json list = json::array();
  for (const auto& problem : problems) list.push_back({{"object", problem.object}, {"message", problem.message}});
  return list;
}

double microseconds(engine::Duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

json to_json(const replication::PathMeasured& measured) {
  json sizes = json::array();
  for (const auto& size : measured.sizes) {
    sizes.push_back({{"bytes", size.bytes},
                     {"round_trips", size.round_trips},
                     {"least_us", microseconds(size.least)},
                     {"median_us", microseconds(size.median)},
                     {"p99_us", microseconds(size.p99)},
                     {"bytes_a_second", size.bytes_a_second}});
  }
  return {{"sizes", sizes}, {"copied", measured.copied}};
}

json to_json(const ApplyOutcome& outcome) {
  return {{"revision", outcome.revision}, {"problems", problems_json(outcome.problems)}};
}

}  // namespace

const RpcMethods::Entry RpcMethods::kMethods[] = {
    {"node.apply", &RpcMethods::apply},          {"node.status", &RpcMethods::status},
    {"node.shutdown", &RpcMethods::shutdown},    {"replica.create", &RpcMethods::replica_create},
    {"replica.grow", &RpcMethods::replica_grow}, {"replica.delete", &RpcMethods::replica_delete},
    {"volume.leave", &RpcMethods::leave},        {"volume.force_solo", &RpcMethods::force_solo},
    {"volume.give_up", &RpcMethods::give_up},    {"witness.try", &RpcMethods::witness_try},
    {"fence.try", &RpcMethods::fence_try},       {"witness.forget", &RpcMethods::witness_forget},
    {"listen.try", &RpcMethods::listen_try},     {"link.try", &RpcMethods::link_try},
    {"witness.read", &RpcMethods::witness_read}, {"witness.swap", &RpcMethods::witness_swap},
    {"link.test", &RpcMethods::link_test},
};

void RpcMethods::handle(const RpcRequest& request, RpcReply reply) {
  std::string known = "events.subscribe";
  for (const Entry& entry : kMethods) {
    if (entry.name == request.method) return (this->*entry.method)(request, std::move(reply));
    known += ", " + std::string(entry.name);
  }
  reply(std::unexpected(RpcError{RpcCode::method_not_found,
                                 "There is no method \"" + request.method + "\"; there are " + known + ".",
                                 engine::Errc::refused,
                                 {}}));
}

engine::Callback<Result<void>> RpcMethods::plain(RpcReply reply) {
  return [this, reply = std::move(reply)](Result<void> outcome) mutable {
    control_.post([outcome = std::move(outcome), reply = std::move(reply)]() mutable {
      if (outcome) return reply(json::object());
      reply(std::unexpected(to_rpc_error(outcome.error())));
    });
  };
}

void RpcMethods::apply(const RpcRequest& request, RpcReply reply) {
  auto state = read_desired_state(request.params);
  if (!state) return reply(std::unexpected(state.error()));
  home_.post([this, state = std::move(*state), reply = std::move(reply)]() mutable {
    node_.apply(std::move(state), [this, reply = std::move(reply)](Result<ApplyOutcome> outcome) mutable {
      control_.post([outcome = std::move(outcome), reply = std::move(reply)]() mutable {
        if (outcome) return reply(to_json(*outcome));
        reply(std::unexpected(to_rpc_error(outcome.error())));
      });
    });
  });
}

void RpcMethods::status(const RpcRequest&, RpcReply reply) {
  home_.post([this, reply = std::move(reply)]() mutable {
    node_.report([this, reply = std::move(reply)](NodeReport report) mutable {
      control_.post(
          [report = std::move(report), reply = std::move(reply)]() mutable { reply(data_plane::to_json(report)); });
    });
  });
}

void RpcMethods::shutdown(const RpcRequest&, RpcReply reply) {
  stop_([reply = std::move(reply)]() mutable { reply(json::object()); });
}

void RpcMethods::replica_create(const RpcRequest& request, RpcReply reply) {
  auto create = read_replica_create(request.params);
  if (!create) return reply(std::unexpected(create.error()));
  home_.post([this, create = std::move(*create), done = plain(std::move(reply))]() mutable {
    node_.create(std::move(create), std::move(done));
  });
}

void RpcMethods::replica_grow(const RpcRequest& request, RpcReply reply) {
  const auto grow = read_replica_grow(request.params);
  if (!grow) return reply(std::unexpected(grow.error()));
  home_.post([this, grow = *grow, done = plain(std::move(reply))]() mutable { node_.grow(grow, std::move(done)); });
}

void RpcMethods::replica_delete(const RpcRequest& request, RpcReply reply) {
  auto remove = read_replica_delete(request.params);
  if (!remove) return reply(std::unexpected(remove.error()));
  home_.post([this, remove = std::move(*remove), done = plain(std::move(reply))]() mutable {
    node_.remove(std::move(remove), std::move(done));
  });
}

void RpcMethods::leave(const RpcRequest& request, RpcReply reply) {
  const auto params = read_volume_params(request.params, false);
  if (!params) return reply(std::unexpected(params.error()));
  home_.post([this, volume = params->volume, done = plain(std::move(reply))]() mutable {
    node_.leave(volume, std::move(done));
  });
}

void RpcMethods::force_solo(const RpcRequest& request, RpcReply reply) {
  const auto params = read_volume_params(request.params, true);
  if (!params) return reply(std::unexpected(params.error()));
  home_.post([this, params = *params, done = plain(std::move(reply))]() mutable {
    node_.force_solo(params.volume, params.accept_inconsistent, std::move(done));
  });
}

void RpcMethods::give_up(const RpcRequest& request, RpcReply reply) {
  const auto params = read_volume_params(request.params, false);
  if (!params) return reply(std::unexpected(params.error()));
  home_.post([this, volume = params->volume, done = plain(std::move(reply))]() mutable {
    node_.give_up(volume, std::move(done));
  });
}

namespace {
/// A person waits: for an answer over a slow line, too, rather than for none. A connection, TLS, a token and the answer
/// are four round trips, and packets may be lost.
Result<replication::EtcdSettings> settings_to_try(const WitnessTry& wanted) {
  auto settings = replication::EtcdSettings::create(wanted.pair, std::span(&wanted.endpoint, 1), wanted.access);
  if (!settings) return settings;
  settings->patience = std::chrono::seconds(16);
  return settings;
}

/// JSON has no whole numbers of 64 bits.
std::string cluster_text(std::uint64_t cluster) {
  std::array<char, 16> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), cluster, 16).ptr;
  return cluster == 0 ? "" : std::string(text.data(), end);
}
}  // namespace

void RpcMethods::witness_try(const RpcRequest& request, RpcReply reply) {
  const auto wanted = read_witness_try(request.params);
  if (!wanted) return reply(std::unexpected(wanted.error()));
  auto settings = settings_to_try(*wanted);
  if (!settings) return reply(std::unexpected(to_rpc_error(settings.error())));
  home_.post([this, settings = std::move(*settings), reply = std::move(reply)]() mutable {
    trials_.run(std::move(settings), [this, reply = std::move(reply)](const replication::EtcdProbe& found) mutable {
      control_.post([found, reply = std::move(reply)]() mutable {
        reply(json{{"answers", found.answers},
                   {"refused", found.refused},
                   {"problem", found.problem},
                   {"cluster", cluster_text(found.cluster)}});
      });
    });
  });
}

void RpcMethods::listen_try(const RpcRequest& request, RpcReply reply) {
  auto wanted = read_listen_try(request.params);
  if (!wanted) return reply(std::unexpected(wanted.error()));
  home_.post([this, wanted = std::move(*wanted), reply = std::move(reply)]() mutable {
    auto found = problems_json(node_.try_to_listen(wanted.addresses));
    control_.post([found = std::move(found), reply = std::move(reply)]() mutable {
      reply(json{{"problems", std::move(found)}});
    });
  });
}

void RpcMethods::link_try(const RpcRequest& request, RpcReply reply) {
  auto wanted = read_link_try(request.params);
  if (!wanted) return reply(std::unexpected(wanted.error()));
  home_.post([this, wanted = std::move(*wanted), reply = std::move(reply)]() mutable {
    node_.try_link(wanted, [this, reply = std::move(reply)](const std::string& problem) mutable {
      control_.post([problem, reply = std::move(reply)]() mutable { reply(json{{"problem", problem}}); });
    });
  });
}

void RpcMethods::link_test(const RpcRequest& request, RpcReply reply) {
  auto which = read_link_test(request.params);
  if (!which) return reply(std::unexpected(which.error()));
  home_.post([this, which = std::move(*which), reply = std::move(reply)]() mutable {
    node_.measure_path(which, [this, reply = std::move(reply)](Result<replication::PathMeasured> found) mutable {
      control_.post([found = std::move(found), reply = std::move(reply)]() mutable {
        if (!found) return reply(std::unexpected(to_rpc_error(found.error())));
        reply(to_json(*found));
      });
    });
  });
}

/// Never more than a look: nobody is powered off because management says so.
void RpcMethods::fence_try(const RpcRequest&, RpcReply reply) {
  home_.post([this, reply = std::move(reply)]() mutable {
    node_.look_at_fence([this, reply = std::move(reply)](const FenceWord& word) mutable {
      control_.post([word, reply = std::move(reply)]() mutable {
        reply(json{{"answers", word.done}, {"off", word.off}, {"problem", word.problem}});
      });
    });
  });
}

template <class T>
engine::Callback<engine::IoResult<T>> RpcMethods::answered(RpcReply reply) {
  return [this, reply = std::move(reply)](engine::IoResult<T> said) mutable {
    control_.post([said = std::move(said), reply = std::move(reply)]() mutable { reply(data_plane::to_json(said)); });
  };
}

void RpcMethods::witness_read(const RpcRequest& request, RpcReply reply) {
  auto wanted = read_witness_read(request.params);
  if (!wanted) return reply(std::unexpected(wanted.error()));
  home_.post(
      [this, wanted = std::move(*wanted), said = answered<replication::WitnessView>(std::move(reply))]() mutable {
        const auto there = node_.witness_at(wanted.addresses);
        if (!there) return said(std::unexpected(make_error_code(engine::Errc::not_serving)));
        // Whether it is back is found out by the probes: management's loops are not held up for that.
        if (there->lost) return said(std::unexpected(make_error_code(engine::Errc::timed_out)));
        there->witness.read(there->pair, std::move(said));
      });
}

void RpcMethods::witness_swap(const RpcRequest& request, RpcReply reply) {
  auto wanted = read_witness_swap(request.params);
  if (!wanted) return reply(std::unexpected(wanted.error()));
  home_.post(
      [this, wanted = std::move(*wanted), said = answered<replication::SwapOutcome>(std::move(reply))]() mutable {
        const auto there = node_.witness_at(wanted.addresses);
        if (!there) return said(std::unexpected(make_error_code(engine::Errc::not_serving)));
        there->witness.swap(there->pair, wanted.seen, wanted.record, std::move(said));
      });
}

void RpcMethods::witness_forget(const RpcRequest& request, RpcReply reply) {
  auto wanted = read_witness_forget(request.params);
  if (!wanted) return reply(std::unexpected(wanted.error()));
  auto settings = settings_to_try(wanted->at);
  if (!settings) return reply(std::unexpected(to_rpc_error(settings.error())));
  home_.post(
      [this, settings = std::move(*settings), order = std::move(*wanted), done = plain(std::move(reply))]() mutable {
        trials_.forget(std::move(settings), std::move(order.volumes), order.keep, std::move(done));
      });
}

}  // namespace lockstep::data_plane
