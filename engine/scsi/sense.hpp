#pragma once
// Sense data (SPC-4 4.5): why a command ended with CHECK CONDITION, in both formats that an initiator may choose with
// D_SENSE, and the additional sense codes that this project sends.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lockstep::scsi {

enum class SenseKey : std::uint8_t {  // SPC-4 table 47
  no_sense = 0x0,
  recovered_error = 0x1,
  not_ready = 0x2,
  medium_error = 0x3,
  hardware_error = 0x4,
  illegal_request = 0x5,
  unit_attention = 0x6,
  data_protect = 0x7,
  copy_aborted = 0xA,
  aborted_command = 0xB,
  miscompare = 0xE,
};

struct AdditionalSense {
  std::uint8_t code = 0;
  std::uint8_t qualifier = 0;
  bool operator==(const AdditionalSense&) const = default;
};

namespace asc {  // the names of SPC-4 annex E.2
inline constexpr AdditionalSense kNoAdditionalSenseInformation{0x00, 0x00};
inline constexpr AdditionalSense kLogicalUnitNotReadyInitializingCommandRequired{0x04, 0x02};
inline constexpr AdditionalSense kLogicalUnitNotAccessibleAsymmetricAccessStateTransition{0x04, 0x0A};
inline constexpr AdditionalSense kLogicalUnitNotAccessibleTargetPortInUnavailableState{0x04, 0x0C};
inline constexpr AdditionalSense kSanitizeInProgress{0x04, 0x1B};
inline constexpr AdditionalSense kWriteError{0x0C, 0x00};
inline constexpr AdditionalSense kThirdPartyDeviceFailure{0x0D, 0x01};
inline constexpr AdditionalSense kCopyTargetDeviceNotReachable{0x0D, 0x02};
inline constexpr AdditionalSense kInvalidFieldInCommandInformationUnit{0x0E, 0x03};
inline constexpr AdditionalSense kUnrecoveredReadError{0x11, 0x00};
inline constexpr AdditionalSense kParameterListLengthError{0x1A, 0x00};
inline constexpr AdditionalSense kMiscompareDuringVerifyOperation{0x1D, 0x00};
inline constexpr AdditionalSense kInvalidCommandOperationCode{0x20, 0x00};
inline constexpr AdditionalSense kLogicalBlockAddressOutOfRange{0x21, 0x00};
inline constexpr AdditionalSense kInvalidFieldInCdb{0x24, 0x00};
inline constexpr AdditionalSense kLogicalUnitNotSupported{0x25, 0x00};
inline constexpr AdditionalSense kInvalidFieldInParameterList{0x26, 0x00};
inline constexpr AdditionalSense kInvalidReleaseOfPersistentReservation{0x26, 0x04};
inline constexpr AdditionalSense kTooManyTargetDescriptors{0x26, 0x06};
inline constexpr AdditionalSense kUnsupportedTargetDescriptorType{0x26, 0x07};
inline constexpr AdditionalSense kTooManySegmentDescriptors{0x26, 0x08};
inline constexpr AdditionalSense kUnsupportedSegmentDescriptorType{0x26, 0x09};
inline constexpr AdditionalSense kCopySegmentGranularityViolation{0x26, 0x0D};
inline constexpr AdditionalSense kWriteProtected{0x27, 0x00};
inline constexpr AdditionalSense kLogicalUnitSoftwareWriteProtected{0x27, 0x02};
inline constexpr AdditionalSense kSpaceAllocationFailedWriteProtect{0x27, 0x07};
inline constexpr AdditionalSense kNotReadyToReadyChange{0x28, 0x00};
inline constexpr AdditionalSense kPowerOnOccurred{0x29, 0x00};
inline constexpr AdditionalSense kScsiBusResetOccurred{0x29, 0x02};
inline constexpr AdditionalSense kBusDeviceResetFunctionOccurred{0x29, 0x03};
inline constexpr AdditionalSense kITNexusLossOccurred{0x29, 0x07};
inline constexpr AdditionalSense kModeParametersChanged{0x2A, 0x01};
inline constexpr AdditionalSense kReservationsPreempted{0x2A, 0x03};
inline constexpr AdditionalSense kReservationsReleased{0x2A, 0x04};
inline constexpr AdditionalSense kRegistrationsPreempted{0x2A, 0x05};
inline constexpr AdditionalSense kAsymmetricAccessStateChanged{0x2A, 0x06};
inline constexpr AdditionalSense kCapacityDataHasChanged{0x2A, 0x09};
inline constexpr AdditionalSense kCommandSequenceError{0x2C, 0x00};
inline constexpr AdditionalSense kCommandTimeoutDuringProcessing{0x2E, 0x02};
inline constexpr AdditionalSense kCommandsClearedByAnotherInitiator{0x2F, 0x00};
inline constexpr AdditionalSense kSanitizeCommandFailed{0x31, 0x03};
inline constexpr AdditionalSense kThinProvisioningSoftThresholdReached{0x38, 0x07};
inline constexpr AdditionalSense kSavingParametersNotSupported{0x39, 0x00};
inline constexpr AdditionalSense kMediumNotPresentTrayOpen{0x3A, 0x02};
inline constexpr AdditionalSense kReportedLunsDataHasChanged{0x3F, 0x0E};
inline constexpr AdditionalSense kEchoBufferOverwritten{0x3F, 0x0F};
inline constexpr AdditionalSense kInternalTargetFailure{0x44, 0x00};
inline constexpr AdditionalSense kMediumRemovalPrevented{0x53, 0x02};
inline constexpr AdditionalSense kInsufficientResources{0x55, 0x03};
inline constexpr AdditionalSense kInsufficientRegistrationResources{0x55, 0x04};
}  // namespace asc

/// Which field of the CDB or the parameter list was wrong (SPC-4 4.5.2.4.2).
struct FieldPointer {
  bool in_cdb = true;  ///< false: in the parameter list
  std::uint16_t byte = 0;
  std::int8_t bit = -1;  ///< the field's most significant bit, 7 to 0; -1: the whole byte
  bool operator==(const FieldPointer&) const = default;
};

struct Sense {
  SenseKey key = SenseKey::no_sense;
  AdditionalSense additional{};
  std::optional<std::uint64_t> information{};  ///< an LBA or a byte offset, whichever the command defines
  std::optional<FieldPointer> field{};         ///< with illegal_request only
  std::optional<std::uint16_t> progress{};     ///< of 65536 parts, with not_ready and no_sense only
  bool operator==(const Sense&) const = default;
};

enum class SenseFormat : std::uint8_t { fixed, descriptor };

constexpr std::size_t kMaxBuiltSense = 28;  ///< bytes: what build_sense() writes at most

/// Writes current sense data and returns its length; `out` has at least kMaxBuiltSense bytes. The fixed format has four
/// bytes of information: a larger value is left out there, with VALID zero.
std::size_t build_sense(const Sense& sense, SenseFormat format, std::span<std::uint8_t> out);

/// Reads sense data of either format, as an initiator. Nothing when it is too short or of an unknown format.
[[nodiscard]] std::optional<Sense> parse_sense(std::span<const std::uint8_t> bytes);

}  // namespace lockstep::scsi
