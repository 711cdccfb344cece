# The program with its unit and man page, of a checkout. listings.md says what a pull request for nixpkgs changes.
{
  lib,
  rustPlatform,
  installShellFiles,
  revision ? "unknown",
}:

rustPlatform.buildRustPackage {
  pname = "azure-scheduled-events-exporter";
  version = (lib.importTOML ../../Cargo.toml).package.version;

  src = lib.fileset.toSource {
    root = ../..;
    fileset = lib.fileset.gitTracked ../..;
  };
  cargoLock.lockFile = ../../Cargo.lock;
  env.BUILD_REVISION = revision;

  # The others start servers, and need more programs.
  cargoTestFlags = [ "--lib" ];

  nativeBuildInputs = [ installShellFiles ];
  postInstall = ''
    installManPage packaging/man/azure-scheduled-events-exporter.1
    install -D -m 644 -t $out/lib/systemd/system packaging/systemd/azure-scheduled-events-exporter.service
    substituteInPlace $out/lib/systemd/system/*.service --replace-fail /usr/bin $out/bin
  '';

  meta = {
    description = "Prometheus and OpenTelemetry exporter for Azure Scheduled Events";
    homepage = "https://github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter";
    license = lib.licenses.asl20;
    maintainers = [ ];
    mainProgram = "azure-scheduled-events-exporter";
    platforms = lib.platforms.linux;
  };
}
