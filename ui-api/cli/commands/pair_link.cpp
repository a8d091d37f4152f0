// lockstep pair rotate-secrets
#include <memory>

#include <CLI/CLI.hpp>

#include "ui-api/cli/commands.hpp"

namespace lockstep::cli {

void add_pair_rotate_secrets(CLI::App& pair, Action& chosen) {
  auto no_wait = std::make_shared<bool>(false);
  auto* c = pair.add_subcommand("rotate-secrets", "Give the replication link between the nodes new secrets");
  c->footer("Sessions and I/O go on. Both nodes must be up; where one goes away meanwhile, the job waits for it.");
  c->add_flag("--no-wait", *no_wait, "Do not wait for the job");
  c->callback([no_wait, &chosen] {
    chosen = [no_wait](Context& context) -> Outcome<void> {
      auto job = context.api.post("/pair/link-secrets", json::object());
      if (!job) return std::unexpected(job.error());
      return finish_job(context, std::move(*job), !*no_wait);
    };
  });
}

}  // namespace lockstep::cli
