// The commands of bourse(1), each a main of its own; bourse_main.cc finds them by name. argv[0] is the command's name.
//
// Exit status of all: 0 done; 1 not done, said why on stderr; 2 wrong use. More where a command's page says so.
#pragma once

namespace bourse::cli {

// A cluster on this machine: up.cc, demo.cc, supervisor.cc, key.cc.
int up_main(int argc, char** argv);
int down_main(int argc, char** argv);
int demo_main(int argc, char** argv);
int supervise_main(int argc, char** argv);  // hidden: what `up` leaves running
int key_main(int argc, char** argv);

// The master's view: status.cc.
int status_main(int argc, char** argv);
int agents_main(int argc, char** argv);
int frameworks_main(int argc, char** argv);
int roles_main(int argc, char** argv);
int offers_main(int argc, char** argv);
int slices_main(int argc, char** argv);
int events_main(int argc, char** argv);

// What operators do: operate.cc.
int cordon_main(int argc, char** argv);
int uncordon_main(int argc, char** argv);
int reprobe_main(int argc, char** argv);
int drain_main(int argc, char** argv);
int undrain_main(int argc, char** argv);
int reload_main(int argc, char** argv);
int label_main(int argc, char** argv);
int remove_main(int argc, char** argv);
int role_main(int argc, char** argv);
int limit_main(int argc, char** argv);
int reserve_main(int argc, char** argv);
int maintenance_main(int argc, char** argv);
int master_main(int argc, char** argv);  // masters.cc

// The batch framework's.
int credential_main(int argc, char** argv);  // hidden: what submit and step run, credential_main.cc
int submit_main(int argc, char** argv);      // also a program of its own
int queue_main(int argc, char** argv);
int jobs_main(int argc, char** argv);
int cancel_main(int argc, char** argv);
int hold_main(int argc, char** argv);
int release_main(int argc, char** argv);
int requeue_main(int argc, char** argv);
int history_main(int argc, char** argv);
int nodes_main(int argc, char** argv);
int why_main(int argc, char** argv);
int top_main(int argc, char** argv);
int step_main(int argc, char** argv);
int rsh_main(int argc, char** argv);
int hostnames_main(int argc, char** argv);
int relay_main(int argc, char** argv);  // hidden: what a step runs, relay.cc

int simulate_main(int argc, char** argv);
int plugin_main(int argc, char** argv);  // plugin.cc

// This host: doctor.cc, probe.cc.
int doctor_main(int argc, char** argv);
int probe_main(int argc, char** argv);

}  // namespace bourse::cli
