# Bourse. One make process, nothing written outside build/.
#
#   make                 all programs, libraries, plugins      make install DESTDIR=/tmp/root PREFIX=/usr
#   make demo            a cluster, a job, its result          make check              build and run all tests
#   make check T=ledger  only tests whose name contains it     make check-mutants      tests must notice disabled mechanisms
#   make bench           benchmarks, as ratios                 make soak               the long fault suite
#   make bench-claims    claims of policies, with intervals
#   make vm-check        isolation on a real kernel with cgroup v2, in a virtual machine
#   make lint            format, tidy, headers, man pages      make fuzz               libFuzzer, SECONDS_EACH=60
#   make SAN=address,undefined check                           make SAN=thread check
#   make clean                                                 make help
#
# V=1 shows commands. MODE=debug builds without optimisation. CXXFLAGS, LDFLAGS, WERROR= are yours to set.
# PCH=no: without precompiled headers. TOGETHER=no: each file by itself.
# Debian packages that are missing are installed first, with a word about it; NO_INSTALL=1 only names them.

VERSION    := 0.1.0
SOMAJOR    := 0
PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
SBINDIR    ?= $(PREFIX)/sbin
LIBDIR     ?= $(PREFIX)/lib
LIBEXECDIR ?= $(PREFIX)/libexec/bourse
INCLUDEDIR ?= $(PREFIX)/include
MANDIR     ?= $(PREFIX)/share/man
MODE       ?= release
comma      := ,
B          ?= build/$(or $(subst $(comma),-,$(SAN)),$(MODE))
INSTALL    ?= install
FLATC      ?= flatc
WERROR     ?= -Werror
CCACHE     := $(shell command -v ccache 2>/dev/null)
PCH        ?= yes

MAKEFLAGS += --no-builtin-rules
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all
Q    := $(if $(V),,@)
say   = $(if $(V),,@printf '  %-8s %s\n' '$(1)' '$(2)')

# --- what Debian has to bring, before anything else: make reads this file again once it has been made ------------------
PACKAGES  := g++ pkg-config libzmq3-dev cppzmq-dev libflatbuffers-dev flatbuffers-compiler libhwloc-dev libsqlite3-dev \
             libtomlplusplus-dev libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libssl-dev libvirt-dev \
             opencl-c-headers libibverbs-dev libseccomp-dev libmicrohttpd-dev libarchive-dev libmunge-dev libraft-dev libcurl4-openssl-dev libpq-dev
PACKAGES_CHECK := libgtest-dev librapidcheck-dev mandoc procps hwloc openmpi-bin libopenmpi-dev python3 gzip \
             libvirt-daemon-system libvirt-daemon-driver-qemu libvirt-clients pocl-opencl-icd oclgrind clinfo \
             prometheus curl crun umoci munge chromium postgresql
PACKAGES_VM    := qemu-system-x86 qemu-utils busybox-static cpio ibverbs-utils iproute2
PACKAGES_SOAK  := qemu-system-arm
PACKAGES_LINT  := clang-format clang-tidy mandoc
PACKAGES_FUZZ  := clang libclang-rt-14-dev
NEEDS      = $(PACKAGES) $(if $(filter check% vm-check soak bench% $(B)/tests/%,$(MAKECMDGOALS)),$(PACKAGES_CHECK) $(PACKAGES_VM)) $(if $(filter soak,$(MAKECMDGOALS)),$(PACKAGES_SOAK)) \
             $(if $(filter lint% format tidy check,$(MAKECMDGOALS)),$(PACKAGES_LINT)) $(if $(filter fuzz,$(MAKECMDGOALS)),$(PACKAGES_FUZZ))
ifeq ($(filter clean help distclean,$(MAKECMDGOALS)),)
DEPS      := build/deps-$(firstword $(shell printf '%s' '$(NEEDS)' | cksum)).mk
include $(DEPS)
endif
$(DEPS): .ci/packages.sh
	@mkdir -p build
	@NO_INSTALL=$(NO_INSTALL) sh .ci/packages.sh $@ $(NEEDS)

# --- flags: ours in all_*, the user's last so they win ----------------------------------------------------------------
opt_release := -O2
opt_debug   := -O0
opt_tests   := -O1
CXXFLAGS   ?= $(if $(SAN),-O1,$(opt_$(MODE))) -g1
all_cxx    := -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -fvisibility=hidden -fPIC \
              -ffp-contract=off -fno-gnu-unique $(WERROR) \
              $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
all_cpp    := -I. -isystem $(B)/gen -Iframeworks/api/include -Iplugins/include -D_GNU_SOURCE -DBOURSE_VERSION='"$(VERSION)"'
all_c      := -std=c99 -Wall -Wextra -Wpedantic -Wshadow $(WERROR) -fPIC $(if $(SAN),-fsanitize=$(SAN))
CFLAGS     ?= -O2 -g1
compile     = $(CCACHE) $(CXX) $(all_cpp) $(CPPFLAGS) $(all_cxx) $(CXXFLAGS)
all_ld     := $(if $(SAN),-fsanitize=$(SAN)) -Wl,--as-needed

# --- modules: a folder (or two) is an archive; *main.cc marks a program -------------------------------------------------
core_dirs     := common/core
wire_dirs     := common/wire
world_dirs    := common/world
sim_dirs      := common/sim
policy_dirs   := plugins/policy
master_dirs   := master
agent_dirs    := agent agent/probes agent/helper agent/doctor
microvm_dirs  := agent/microvm
launcher_dirs := agent/launcher agent/isolators
container_dirs := agent/container
api_dirs      := frameworks/api
batch_dirs    := frameworks/batch
cli_dirs      := frameworks/cli frameworks/cli/slurm
console_dirs  := frameworks/console
fmt_dirs      := common/fmt
MODULES       := core wire world sim policy master agent microvm container launcher api batch cli console fmt
srcs = $(sort $(foreach d,$($(1)_dirs),$(wildcard $(d)/*.cc)))

# Files of one folder that the same programs need are compiled as one: a module's headers, and the templates that its files use, cost
# more than the code between. Names in anonymous namespaces must differ within a bundle. A file that is in none is compiled by itself,
# as all are with TOGETHER=no and for sanitizers, which therefore see what a file has taken from its neighbours.
BUNDLES := \
  agent/agent+checkpoint+generations+inventory agent/merge+probing+session+settings agent/slices+status_stream+tasks+tasks_restore \
  agent/artifacts+host+hotplug+isolation+mock_host \
  agent/doctor/cgroups+clock+devices+doctor agent/doctor/identity+kernel+memory agent/doctor/network+storage \
  agent/isolators/cgroup_base+cgroup_v2+none \
  agent/launcher/channel+protocol agent/launcher/child+scratch+turns+users \
  agent/microvm/guest+machine \
  agent/probes/accelerators+amdgpu+apart+ascend agent/probes/catalog+report agent/probes/declared+fpga+libvirt \
  agent/probes/nvidia+nvml+opencl agent/probes/plugin+rdma+run_probe \
  common/core/action+event+messages+session common/core/counters+hooks+ids+result common/core/fit+inventory+resources+span+task \
  common/sim/checkers+swarm common/sim/disk+host+network+node common/sim/queue+swf+trace+workload+world \
  common/wire/bodies_offer+bodies_session+bodies_slice+bodies_task+bodies_view common/wire/codec+inventory+task+values+wire \
  common/world/crc32c+driver+log_file \
  frameworks/api/builders+calls+loop+open+views frameworks/api/client+client_command+client_receive \
  frameworks/api/offer_table+slice_table+status_streams+task_table \
  frameworks/batch/allocations+amount+arrays+batch frameworks/batch/batch_ahead+batch_peers+batch_recovery+batch_steps \
  frameworks/batch/batch_mail+batch_reserved frameworks/batch/batch_run+depend frameworks/batch/mail+mailer+reserved \
  frameworks/batch/batch_status+batch_submit+batch_tools frameworks/batch/ending+history+store frameworks/batch/claim+pg+sql \
  frameworks/batch/environment+jobs+layout+options frameworks/batch/planner+planner_conservative+planner_easy+profile \
  frameworks/batch/queue+records frameworks/batch/replay+simulated_nodes \
  frameworks/cli/cluster+complain+demo frameworks/cli/doctor+job_tools+key frameworks/cli/job_text+submit_values \
  frameworks/cli/leftovers+live+operate frameworks/cli/options+script+submit_options+submit_table \
  frameworks/cli/plot+plugin+probe frameworks/cli/simulate+simulate_input+simulate_report frameworks/cli/simulate_svg+status+step \
  frameworks/cli/supervisor+up \
  master/agents+allocator+explain+frameworks master/gangs+ledger+master+offers \
  master/allocator_kept+claims+harm+reservations master/operators+registry+reserve_actions+roles+sessions master/slices+status \
  plugins/policy/binpack+book+builtin+catalog plugins/policy/drf+hdrf+hybrid+params plugins/policy/fgd+fifo plugins/policy/host+sjf+usage
TOGETHER ?= $(if $(SAN),no,yes)
ifeq ($(TOGETHER),no)
BUNDLES :=
endif
members = $(patsubst %,$(dir $(1))%.cc,$(subst +, ,$(notdir $(1))))
bundled := $(foreach b,$(BUNDLES),$(call members,$(b)))
bundles = $(foreach b,$(BUNDLES),$(if $(filter $(1),$(patsubst %/,%,$(dir $(b)))),$(B)/$(b).o))
objs = $(patsubst %.cc,$(B)/%.o,$(filter-out %main.cc $(bundled),$(call srcs,$(1)))) $(foreach d,$($(1)_dirs),$(call bundles,$(d)))
libs = $(foreach m,$(1),$(B)/lib/$(m).a)

ZMQ := -lzmq
BASE_LIBS := -lfmt -ldl -pthread
RPATH     := -Wl,-rpath,'$$ORIGIN/..:$$ORIGIN/../lib'

# program:main:where:modules:libraries
PROGS := \
  bourse-master:master/main:$(SBINDIR):master,policy,world,wire,core:-lzmq,-lcrypto,-lraft \
  bourse-agent:agent/main:$(SBINDIR):agent,launcher,world,wire,core:-lzmq,-lcrypto,-lseccomp \
  bourse-helper:agent/helper/main:$(LIBEXECDIR):agent,microvm,world,wire,core:-lhwloc,-lcrypto \
  bourse-launcher:agent/launcher/main:$(LIBEXECDIR):launcher,world,wire,core:-lseccomp,-lcrypto \
  bourse-init:agent/launcher/init/init_main:$(LIBEXECDIR):core: \
  bourse-container:agent/container/container_main:$(LIBEXECDIR):container,launcher,core:-larchive,-lcrypto,-lseccomp \
  bourse-microvm:agent/microvm/microvm_main:$(LIBEXECDIR):microvm,launcher,world,wire,core: \
  bourse-batch:frameworks/batch/main:$(SBINDIR):batch,policy,sim,world,wire,core:-lzmq,-lsqlite3,-lcrypto,$(B)/libbourse.so \
  bourse-console:frameworks/console/main:$(SBINDIR):console,cli,batch,world,wire,core:-lzmq,-lcrypto,-lmicrohttpd \
  bourse:frameworks/cli/bourse_main:$(BINDIR):cli,batch,sim,master,policy,agent,api,world,wire,core:-lzmq,-lsqlite3,-lhwloc,-lcrypto,-lz,-lraft \
  submit:frameworks/cli/submit_main:$(BINDIR):cli,batch,policy,world,wire,core,fmt:
field  = $(word $(2),$(subst :, ,$(subst ::,: :,$(1))))
list   = $(subst $(comma), ,$(1))

SCHEMAS := common/wire/bourse.fbs $(wildcard frameworks/*/*.fbs)
# Compilers list no system headers as dependencies, and these are included as such: objects name them.
FBS_GEN  = $(filter %_generated.h,$(GEN))
GEN     := $(foreach s,$(SCHEMAS),$(B)/gen/$(basename $(notdir $(s)))_generated.h) $(B)/gen/console_page.inc
CAPI    := $(B)/libbourse.so.$(VERSION)
PLUGINS := $(patsubst plugins/%.c,%,$(wildcard plugins/examples/*.c))
EXAMPLES:= $(patsubst frameworks/api/examples/%.c,$(B)/examples/%,$(wildcard frameworks/api/examples/*.c))
SLURM_NAMES := sbatch srun salloc squeue sacct sinfo scancel scontrol
SLURM_LINKS := $(SLURM_NAMES:%=$(B)/bin/slurm/%)
MANS    := $(wildcard man/*.[1-8])

all: $(foreach p,$(PROGS),$(B)/bin/$(call field,$(p),1)) $(B)/bin/bourse-rsh $(SLURM_LINKS) $(PLUGINS:%=$(B)/plugins/%.so) $(CAPI) $(EXAMPLES) $(B)/bourse.pc $(B)/bin/bourse-wait

# Objects are remade when the compiler or the flags change, not only when sources do.
flags_text := $(CXX) $(all_cxx) $(all_cpp) $(CXXFLAGS) $(CPPFLAGS) $(opt_tests) $(CC) $(all_c) $(CFLAGS) $(shell $(CXX) -v 2>&1 | tail -1)
$(B)/flags: FORCE
	@mkdir -p $(@D); echo '$(flags_text)' | cmp -s - $@ || echo '$(flags_text)' > $@

# The standard library, fmt and GoogleTest are read once, not again in each file: that was a third of the time of a build.
# Nothing needs it. The lint of headers, tidy and fuzz do without, and PCH=no builds without, so what a file forgets to include shows.
ifneq ($(PCH),no)
# GCC 12 forgets that std::string is a system header when that comes precompiled, and then warns of what it inlines from there.
pch       := $(B)/pch/common.h
pch_cxx    = -Winvalid-pch -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict -include $(pch)
CCACHE    := $(if $(CCACHE),CCACHE_SLOPPINESS=$(shell $(CCACHE) -k sloppiness | tr -d ' ')$(comma)pch_defines$(comma)time_macros $(CCACHE))
endif
$(B)/pch/%.h.gch: %/precompiled.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,PCH,$<)
	@echo '#include "$<"' > $(@:.gch=)
	$(Q)$(compile) -MD -MP -MF $(@:.gch=.d) -MT $@ -x c++-header $< -o $@

$(B)/%.o: %.cc $(B)/flags $(pch:=.gch) $(FBS_GEN) | $(GEN)
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(compile) $(pch_cxx) -MMD -MP -c $< -o $@

$(BUNDLES:%=$(B)/%.cc):
	@mkdir -p $(@D)
	@printf '#include "%s"\n' $(call members,$(@:$(B)/%.cc=%)) > $@
$(BUNDLES:%=$(B)/%.o): %.o: %.cc $(B)/flags $(pch:=.gch) $(FBS_GEN) | $(GEN)
	$(call say,CXX,$(@:$(B)/%.o=%))
	$(Q)$(compile) $(pch_cxx) -Wno-subobject-linkage -MMD -MP -c $< -o $@

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CCACHE) $(CC) $(all_cpp) $(CPPFLAGS) $(all_c) $(CFLAGS) -MMD -MP -c $< -o $@

define schema
$(B)/gen/$(basename $(notdir $(1)))_generated.h: $(1)
	@mkdir -p $$(@D)
	$$(call say,FLATC,$$<)
	$$(Q)$(FLATC) --cpp --scoped-enums --cpp-std c++17 -o $$(@D) $$<
endef
$(foreach s,$(SCHEMAS),$(eval $(call schema,$(s))))

# The console's page, as a raw string that page.cc includes.
$(B)/gen/console_page.inc: frameworks/console/page.html
	@mkdir -p $(@D)
	$(call say,EMBED,$<)
	$(Q){ printf 'R"page('; cat $<; printf ')page"\n'; } > $@
$(B)/frameworks/console/page.o: $(B)/gen/console_page.inc

define module
$(B)/lib/$(1).a: $(call objs,$(1))
	@mkdir -p $$(@D)
	$$(call say,AR,$$@)
	$$(Q)rm -f $$@ && $(AR) rcs $$@ $$^
endef
$(foreach m,$(MODULES),$(eval $(call module,$(m))))

define program  # program:main:where:modules:libraries
$(B)/bin/$(call field,$(1),1): $(B)/$(call field,$(1),2).o $(call libs,$(call list,$(call field,$(1),4))) $(filter $(B)/%,$(call list,$(call field,$(1),5)))
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$(CXX) $(all_ld) $(LDFLAGS) $$(RPATH) $$(filter %.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group \
	  $(call list,$(call field,$(1),5)) $$(BASE_LIBS) -o $$@
endef
$(foreach p,$(PROGS),$(eval $(call program,$(p))))
# submit is started once for each job: every shared library would be opened, mapped and bound each time. Only libc is left.
ifeq ($(SAN),)
$(B)/bin/submit: BASE_LIBS := -static-libstdc++ -static-libgcc
$(B)/bin/submit: RPATH :=
endif

# `bourse rsh` as one word, for programs that want the path of something like ssh.
$(B)/bin/bourse-rsh: $(B)/bin/bourse
	$(Q)ln -sf $(<F) $@

# Slurm's commands by name, in a directory of their own: nobody's PATH has them by surprise. submit is sbatch; the rest is in bourse.
slurm_target = $(if $(filter sbatch,$(notdir $(1))),submit,bourse)
$(SLURM_LINKS): $(B)/bin/bourse $(B)/bin/submit
	@mkdir -p $(@D)
	$(Q)ln -sf ../$(call slurm_target,$@) $@

$(B)/plugins/%.so: $(B)/plugins/%.o
	@mkdir -p $(@D)
	$(call say,PLUGIN,$@)
	$(Q)$(CXX) -shared $(all_ld) -Wl,-z,defs $(LDFLAGS) $^ -o $@

# --- the C API -----------------------------------------------------------------------------------------------------------
$(CAPI): $(call objs,api) $(call libs,world wire core) frameworks/api/libbourse.map
	$(call say,SHARED,$@)
	$(Q)$(CXX) -shared $(all_ld) -Wl,-z,defs -Wl,-soname,libbourse.so.$(SOMAJOR) -Wl,--version-script=frameworks/api/libbourse.map \
	  $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -lzmq -lcrypto -lseccomp $(BASE_LIBS) -o $@
	$(Q)ln -sf $(@F) $(B)/libbourse.so.$(SOMAJOR)
$(B)/libbourse.so: $(CAPI)
	$(Q)ln -sf $(<F) $@

$(B)/examples/%: $(B)/frameworks/api/examples/%.o $(B)/libbourse.so
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(all_ld) $(LDFLAGS) $< $(B)/libbourse.so -Wl,-rpath,'$$ORIGIN/..' -o $@

$(B)/bourse.pc: FORCE   # always: PREFIX may differ between make and make install
	@mkdir -p $(@D)
	$(Q)printf 'prefix=%s\nlibdir=%s\nincludedir=%s\n\nName: bourse\nDescription: Framework library of the Bourse resource scheduler\nVersion: %s\nLibs: -L$${libdir} -lbourse\nCflags: -I$${includedir}\n' \
	  '$(PREFIX)' '$(LIBDIR)' '$(INCLUDEDIR)' '$(VERSION)' > $@

# --- tests: a folder under tests/ is one binary, linked with the modules it is about ---------------------------------------
TEST_core    := core
TEST_wire    := wire,core
TEST_world   := world,wire,core
TEST_sim     := batch,api,sim,master,policy,agent,launcher,world,wire,core
TEST_policy  := policy,world,wire,core
TEST_master  := master,policy,world,wire,core
TEST_agent   := agent,microvm,container,launcher,world,wire,core
TEST_microvm := microvm,launcher,world,wire,core
TEST_api     := api,world,wire,core
TEST_batch   := batch,api,sim,policy,world,wire,core
TEST_cli     := cli,batch,policy,world,wire,core
TEST_console := console,cli,batch,world,wire,core
TEST_cluster := cli,batch,policy,world,wire,core
TESTS        := core wire world sim policy master agent microvm api batch cli console cluster
# GoogleTest's macros take long to optimise, and checks need no speed of their own. The simulator's do: seeds a second count.
TEST_OBJS    := $(patsubst %.cc,$(B)/%.o,$(wildcard $(patsubst %,tests/%/*.cc,support $(filter-out sim,$(TESTS)))))
$(TEST_OBJS) $(B)/pch/tests.h.gch: private opt_release := $(opt_tests)
ifneq ($(PCH),no)
$(TEST_OBJS): private pch := $(B)/pch/tests.h
$(TEST_OBJS): $(B)/pch/tests.h.gch
endif
BENCH_LIBS   := -lzmq -lsqlite3 -lhwloc -lcrypto -lz -lseccomp -lmicrohttpd -lraft
TEST_LIBS    := -lgtest -lrapidcheck -lraft -lzmq -lsqlite3 -lhwloc -lcrypto -lz -lseccomp -lmicrohttpd -larchive
test_srcs     = $(sort $(wildcard tests/$(1)/*.cc) $(wildcard tests/support/*.cc))

define test
$(B)/tests/bin/$(1): $(patsubst %.cc,$(B)/%.o,$(call test_srcs,$(1))) $(patsubst %.c,$(B)/%.o,$(wildcard tests/$(1)/*.c)) $(call libs,$(call list,$(TEST_$(1))))
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$(CXX) $(all_ld) $(LDFLAGS) $$(filter %.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $(TEST_LIBS) $(BASE_LIBS) -o $$@
endef
$(foreach t,$(TESTS),$(if $(wildcard tests/$(t)/*.cc),$(eval $(call test,$(t)))))
TEST_BINS    := $(foreach t,$(TESTS),$(if $(wildcard tests/$(t)/*.cc),$(B)/tests/bin/$(t)))
CLAIMS_BIN   := $(B)/tests/bench/claims/claims
TOOL_BINS    := $(patsubst tests/tools/%.c,$(B)/tests/tools/%,$(wildcard tests/tools/*.c)) $(B)/tests/tools/herd
$(B)/tests/tools/herd: $(B)/tests/tools/herd.o $(call libs,agent launcher world wire core)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(all_ld) $(LDFLAGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -lzmq -lcrypto -lseccomp $(BASE_LIBS) -o $@
# It runs in the root of any image, so it brings all that it needs.
$(B)/bin/bourse-wait: agent/container/wait.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -std=gnu11 -Wall -Wextra -O2 -static $< -o $@
$(B)/tests/tools/%: tests/tools/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -std=gnu11 -Wall -Wextra -O2 -static $< -o $@

# One plugin for each fault of tests/plugins/broken.c.
FAULTS       := good no_symbol wrong_abi short_size no_kind other_kind bad_name no_get init_fails no_interface short_interface null_function \
                create_fails rank_twice crashes loops slow endless stranger random nan_score far_score bad_device big_state
BROKEN       := $(FAULTS:%=$(B)/tests/plugins/%.so)
$(BROKEN): $(B)/tests/plugins/%.so: tests/plugins/broken.c plugins/include/bourse/plugin.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,PLUGIN,$@)
	$(Q)$(CC) $(all_cpp) $(all_c) $(CFLAGS) -Wno-unused-function -Wno-unused-parameter -D$(shell echo $* | tr a-z A-Z) -shared $(all_ld) $(LDFLAGS) $< -o $@
$(B)/tests/bin/world $(B)/tests/bin/policy: | $(BROKEN)

# OpenCL drivers that misbehave.
ICDS         := $(patsubst tests/icd/%.c,$(B)/tests/icd/%.so,$(wildcard tests/icd/*.c))
$(B)/tests/icd/%.so: tests/icd/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -std=gnu11 -Wall -Wextra -O1 -fPIC -shared $< -o $@

# A kernel, and the first file system of a virtual machine with what has been built: see tests/vm.
VM_IMAGE := $(if $(SAN),,$(B)/vm/initramfs)
$(B)/vm/initramfs: $(foreach p,$(PROGS),$(B)/bin/$(call field,$(p),1)) $(B)/bin/bourse-wait $(CAPI) $(B)/tests/bin/agent $(TOOL_BINS) $(wildcard tests/vm/*.sh) tests/vm/init
	$(call say,VM,$@)
	$(Q)B=$(B) bash tests/vm/image.sh $(@D)
# The same with the kernel that has all modules, for soft-RoCE.
$(B)/vm-rdma/initramfs: $(B)/vm/initramfs
	$(call say,VM,$@)
	$(Q)B=$(B) VM_KERNEL=linux-image-amd64 VM_MODULES="dummy crc32_generic ib_uverbs rdma_rxe" bash tests/vm/image.sh $(@D)
vm-check: $(B)/vm/initramfs $(B)/vm-rdma/initramfs
	$(Q)B=$(B) bash tests/vm/all.sh

check: all $(TEST_BINS) $(TOOL_BINS) $(ICDS) $(VM_IMAGE) $(CLAIMS_BIN) lint
	$(Q)B=$(B) SAN=$(SAN) T='$(T)' sh tests/run.sh $(TEST_BINS)
check-mutants: all $(TEST_BINS) $(TOOL_BINS) $(ICDS) $(VM_IMAGE)
	$(Q)B=$(B) M='$(M)' bash tests/mutants.sh
soak: all $(TEST_BINS) $(TOOL_BINS) $(ICDS)
	$(Q)B=$(B) SAN=$(SAN) SOAK=1 T='$(T)' sh tests/run.sh $(TEST_BINS)
BENCH_BINS := $(patsubst tests/bench/%.cc,$(B)/tests/bench/%,$(wildcard tests/bench/*_bench.cc))
$(B)/tests/bench/%: $(B)/tests/bench/%.o $(call libs,$(filter-out fmt,$(MODULES))) $(B)/libbourse.so
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(all_ld) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(BENCH_LIBS) $(BASE_LIBS) -o $@
bench: all $(TOOL_BINS) $(BENCH_BINS) $(B)/tests/bin/agent
	$(Q)B=$(B) bash tests/bench/run.sh $(BENCH_BINS)
# What is claimed of policies, measured: minutes. CLAIMS="--directory DIR" leaves a table and a plot there.
$(CLAIMS_BIN): $(patsubst %.cc,$(B)/%.o,$(wildcard tests/bench/claims/*.cc)) $(call libs,$(filter-out fmt,$(MODULES))) $(B)/libbourse.so
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(all_ld) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(BENCH_LIBS) $(BASE_LIBS) -o $@
bench-claims: $(CLAIMS_BIN)
	$(Q)$< $(CLAIMS)
demo: all
	$(Q)$(B)/bin/bourse demo

# Fuzzers need clang; the same inputs are mutated deterministically inside make check.
SECONDS_EACH ?= 30
FUZZERS := $(patsubst tests/fuzz/%.cc,%,$(wildcard tests/fuzz/*_fuzz.cc))
$(B)/fuzz/%: tests/fuzz/%.cc $(GEN) FORCE
	@mkdir -p $(@D)
	$(call say,FUZZ,$<)
	$(Q)clang++ $(all_cpp) -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined $< $(call srcs,core) $(call srcs,wire) -lfmt -o $@
fuzz: $(FUZZERS:%=$(B)/fuzz/%)
	$(Q)for f in $(FUZZERS); do mkdir -p $(B)/fuzz/corpus-$$f; $(B)/fuzz/$$f -max_total_time=$(SECONDS_EACH) -max_len=65536 $(B)/fuzz/corpus-$$f || exit 1; done

# --- lint ------------------------------------------------------------------------------------------------------------------
OUR_FILES  = $(shell git ls-files -co --exclude-standard '*.cc' '*.h' '*.c')
C_HEADERS := $(wildcard frameworks/api/include/bourse/*.h plugins/include/bourse/*.h)
HEADERS   := $(wildcard common/*/*.h master/*.h agent/*.h agent/*/*.h frameworks/*/*.h frameworks/*/*/*.h plugins/*/*.h) $(C_HEADERS)
check-headers: $(HEADERS:%=$(B)/headers/%.ok)
$(B)/headers/%.ok: % $(B)/flags | $(GEN)
	@mkdir -p $(@D)
	$(call say,HEADER,$<)
	$(Q)$(CCACHE) $(CXX) $(all_cpp) $(all_cxx) -MMD -MP -MT $@ -MF $(@:.ok=.d) -fsyntax-only -include $< -x c++ /dev/null && touch $@
	$(if $(filter $<,$(C_HEADERS)),$(Q)$(CC) $(all_c) $(all_cpp) -fsyntax-only -include $< -x c /dev/null)
format:
	$(Q)clang-format -i $(OUR_FILES)
lint: check-headers
	$(Q)B=$(B) sh .ci/lint.sh
tidy: | $(GEN)
	$(Q)B=$(B) sh .ci/lint.sh --tidy '$(subst ',,$(all_cpp)) -std=c++20'

# --- install ---------------------------------------------------------------------------------------------------------------
install: all
	$(Q)$(foreach p,$(PROGS),$(INSTALL) -D -m 755 $(B)/bin/$(call field,$(p),1) $(DESTDIR)$(call field,$(p),3)/$(call field,$(p),1) &&) true
	$(Q)$(INSTALL) -D -m 755 $(B)/bin/bourse-wait $(DESTDIR)$(LIBEXECDIR)/bourse-wait
	$(Q)ln -sf bourse $(DESTDIR)$(BINDIR)/bourse-rsh
	$(Q)mkdir -p $(DESTDIR)$(LIBEXECDIR)/slurm && for n in $(SLURM_NAMES); do ln -sf $(BINDIR)/bourse $(DESTDIR)$(LIBEXECDIR)/slurm/$$n || exit 1; done
	$(Q)ln -sf $(BINDIR)/submit $(DESTDIR)$(LIBEXECDIR)/slurm/sbatch
	$(Q)$(INSTALL) -D -m 755 $(CAPI) $(DESTDIR)$(LIBDIR)/$(notdir $(CAPI))
	$(Q)ln -sf $(notdir $(CAPI)) $(DESTDIR)$(LIBDIR)/libbourse.so.$(SOMAJOR) && ln -sf libbourse.so.$(SOMAJOR) $(DESTDIR)$(LIBDIR)/libbourse.so
	$(Q)for h in frameworks/api/include/bourse/*.h plugins/include/bourse/*.h; do [ ! -e "$$h" ] || $(INSTALL) -D -m 644 $$h $(DESTDIR)$(INCLUDEDIR)/bourse/$${h##*/}; done
	$(Q)$(INSTALL) -D -m 644 $(B)/bourse.pc $(DESTDIR)$(LIBDIR)/pkgconfig/bourse.pc
	$(Q)for m in $(MANS); do $(INSTALL) -D -m 644 $$m $(DESTDIR)$(MANDIR)/man$${m##*.}/$${m##*/}; done

help:
	@sed -n "3,13p" Makefile | sed 's/^# \{0,1\}//'
clean:
	rm -rf build
-include $(shell test -d $(B) && find $(B) -name '*.d' 2>/dev/null)
FORCE:
.PHONY: all check vm-check check-mutants soak bench bench-claims demo fuzz check-headers format lint tidy install help clean FORCE
