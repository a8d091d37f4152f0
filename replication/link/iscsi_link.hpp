#pragma once
// The way out to the partner: an iSCSI session to its reserved target, made again and again until it stands. Each
// Link::send() is one vendor-specific command (link_format.hpp, format.md).
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/net/tcp.hpp"
#include "engine/net/tls_context.hpp"
#include "engine/net/tls_stream.hpp"
#include "engine/rdma/verbs.hpp"
#include "engine/runtime/reactor.hpp"
#include "engine/seams/random.hpp"
#include "replication/core/link.hpp"
#include "replication/link/link_session.hpp"

namespace lockstep::replication {

struct LinkWay {
  std::string address;  ///< as in IscsiLinkSettings
  std::string from;
  bool operator==(const LinkWay&) const = default;
};

/// What calls over RDMA are made with. All of it outlives the link; the pool's arena is the fabric's.
struct LinkRdma {
  rdma::Fabric& fabric;
  rdma::Completions& completions;
  engine::BufferPool& pool;  ///< for messages, and for data that lies in no arena
  iser::MessageMemory& messages;
  iser::Figures& figures;
};

struct IscsiLinkSettings {
  LinkIdentity identity;
  std::string address;            ///< the partner's, "10.0.0.2:3261"; empty: there is no partner yet
  std::string from;               ///< local address to connect from, "10.0.0.1:0"; empty: any
  std::vector<LinkWay> others{};  ///< tried in turn while that way does not work
  /// Who this node is, and whom it talks to; null: without TLS.
  std::shared_ptr<const engine::TlsContext> tls{};
  LinkRdma* rdma = nullptr;  ///< over RDMA; null: over TCP
  engine::Duration connect_timeout = std::chrono::milliseconds(1000);
  engine::Duration login_timeout = std::chrono::milliseconds(2000);
  engine::Duration ping_after = std::chrono::milliseconds(250);        ///< of silence
  engine::Duration broken_after = std::chrono::milliseconds(1000);     ///< of silence
  std::uint64_t renewal_after_bytes = engine::kTlsBytesBeforeRenewal;  ///< either way, where there is TLS over TCP
  engine::Duration first_retry = std::chrono::milliseconds(50);
  engine::Duration last_retry = std::chrono::milliseconds(1000);
};

/// Owned by one reactor. start() after the LinkEvents exist; they outlive stop().
class IscsiLink final : public Link {
 public:
  static constexpr std::size_t kMaxWaiting = 16384;  ///< tasks behind the window; more end with resource_exhausted

  IscsiLink(engine::Reactor& reactor, engine::Random& random, IscsiLinkSettings settings);
  /// No callback runs afterwards, not even of what was outstanding.
  ~IscsiLink() override;

  void start(LinkEvents& events);
  /// Another address or other credentials: a session that stands is given up and made anew at once.
  void change(IscsiLinkSettings settings);
  /// Other credentials or other ways: a session that stands goes on.
  void use_from_next_login(IscsiLinkSettings settings);
  /// Not after the pause that follows an attempt in vain: there is news of the partner.
  void try_at_once();
  /// Ends the session for good without a further event; what is outstanding is forgotten. Over RDMA not before
  /// `stopped` has run (perhaps in here) is it over: only then may the link be destroyed, and what it was given be
  /// touched.
  void stop(engine::Callback<> stopped = {});

  [[nodiscard]] bool is_up() const override;
  [[nodiscard]] std::uint16_t version() const override;
  void send(std::span<const std::byte> header, std::span<const std::byte> payload_out, std::span<std::byte> payload_in,
            engine::Callback<engine::IoResult<LinkAnswer>> done) override;
  void reset() override;
  [[nodiscard]] bool wants_renewal() const override;

  [[nodiscard]] bool is_rdma() const;
  /// The way that the session that stands has taken, or the last attempt.
  [[nodiscard]] const LinkWay& way() const;
  /// Why the link is down, a sentence for a person; empty while it is up or was never tried.
  [[nodiscard]] const std::string& problem() const;
  /// What the session that stands is encrypted with, "TLS_AES_256_GCM_SHA384", over RDMA "AES-256-GCM"; empty: with
  /// nothing, or it is down.
  [[nodiscard]] std::string_view cipher() const;
  /// … and it is the kernel that does it, with what is sent.
  [[nodiscard]] bool is_encrypted_by_kernel() const;
  /// Of the session that stands.
  [[nodiscard]] std::optional<engine::TcpFigures> figures() const;
  /// Tells of a new reason why the link is down, once for each.
  void on_problem(engine::Callback<const std::string&> handler);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::replication
